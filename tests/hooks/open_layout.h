// An aten::OpenLayout as tests in Python write it.
#pragma once
#include <nanobind/nanobind.h>

#include "aten/aten.h"

namespace pellucid::hooks {

// For each dim a dict: size=(least, most) when it is open, stride="open" or the dim of which it is the dense stride.
inline aten::OpenLayout open_layout(nanobind::handle dims) {
  namespace nb = nanobind;
  using Stride = aten::OpenLayout::Stride;
  aten::OpenLayout layout;
  for (nb::handle each : dims) {
    const auto given = nb::borrow<nb::dict>(each);
    auto& dim = layout.dims.emplace_back();
    if (given.contains("size")) {
      dim.open = true;
      dim.least = nb::cast<std::int64_t>(given["size"][0]);
      dim.most = nb::cast<std::int64_t>(given["size"][1]);
    }
    if (!given.contains("stride")) continue;
    const bool is_dense = nb::isinstance<nb::int_>(given["stride"]);
    dim.stride = is_dense ? Stride::Dense : Stride::Open;
    if (is_dense) dim.inner = nb::cast<int>(given["stride"]);
  }
  return layout;
}

}  // namespace pellucid::hooks
