// pellucid._core._aten: fake tensors, tensor guards and global state as Python tests see them.
#include "aten/aten.h"

#include <memory>
#include <vector>

#include "hooks.h"
#include "open_layout.h"

namespace nb = nanobind;

namespace pellucid::hooks {

nb::object call_in(aten::FakeScope& scope, const nb::object& callable, const nb::args& args, const nb::kwargs& kwargs) {
  std::vector<PyObject*> flat;
  for (nb::handle arg : args) flat.push_back(arg.ptr());
  nb::list names;
  for (auto [name, value] : kwargs) {
    names.append(name);
    flat.push_back(value.ptr());
  }
  nb::tuple kwnames(names);
  return guarded([&] {
    return nb::steal(
        scope.call(callable.ptr(), flat.data(), args.size(), kwnames.size() != 0 ? kwnames.ptr() : nullptr).release());
  });
}

namespace {

nb::object take(py::Owned<> object) { return nb::steal(object.release()); }

void add_meta(nb::dict& out, PyObject* tensor) {
  const aten::Meta meta = aten::meta_of(tensor);
  nb::list sizes, strides;
  for (auto size : meta.sizes) sizes.append(size);
  for (auto stride : meta.strides) strides.append(stride);
  out["sizes"] = nb::tuple(sizes);
  out["strides"] = nb::tuple(strides);
  out["storage_offset"] = meta.storage_offset;
  out["requires_grad"] = meta.requires_grad;
  out["is_leaf"] = meta.is_leaf;
  out["version"] = meta.version;
  out["storage"] = reinterpret_cast<std::uintptr_t>(meta.storage);
}

template <bool (*read)(PyObject*, std::int64_t, std::int64_t*) noexcept>
nb::object number_at(nb::handle object, std::int64_t dim) {
  std::int64_t number = 0;
  return read(object.ptr(), dim, &number) ? nb::object(nb::int_(number)) : nb::none();
}

}  // namespace

void add_aten(nb::module_& core) {
  nb::module_ m = core.def_submodule("_aten", "The room aten, for tests.");
  m.def("is_tensor", [](nb::handle object) { return aten::is_tensor(object.ptr()); });
  m.def("size_at", &number_at<aten::size_at>, nb::arg().none(), nb::arg());
  m.def("stride_at", &number_at<aten::stride_at>, nb::arg().none(), nb::arg());
  m.def("is_plain_tensor", [](nb::handle object) { return aten::is_plain_tensor(object.ptr()); });
  m.def("is_fake", [](nb::handle object) { return aten::is_fake(object.ptr()); });
  m.def("fake_like", [](nb::handle like) { return guarded([&] { return take(aten::fake_like(like.ptr())); }); });
  m.def("live_fakes", &aten::live_fakes);
  m.def("meta_of", [](nb::handle tensor) {
    nb::dict out;
    guarded([&] { add_meta(out, tensor.ptr()); });
    return out;
  });
  m.def("version_of", [](nb::handle tensor) { return aten::version_of(tensor.ptr()); });
  m.def("ops_without_rule", [] {
    nb::dict out;
    for (const auto& [name, count] : aten::ops_without_rule()) out[name.c_str()] = count;
    return out;
  });
  m.def("reset_ops_without_rule", &aten::reset_ops_without_rule);
  add_open_sizes(m);

  nb::class_<aten::FakeScope>(m, "FakeScope")
      .def(nb::init<>())
      .def("fake_of", [](aten::FakeScope& scope,
                         nb::handle real) { return guarded([&] { return take(scope.fake_of(real.ptr())); }); })
      .def("call", &call_in)
      .def_static("is_data_dependent",
                  [](nb::handle exception) { return aten::FakeScope::is_data_dependent(exception.ptr()); });
  nb::class_<aten::TensorSpec>(m, "TensorSpec")
      .def_static(
          "of",
          [](nb::handle tensor, nb::object open) {
            const auto layout = open.is_none() ? aten::OpenLayout() : open_layout(open);
            return guarded(
                [&] { return aten::TensorSpec::of(tensor.ptr(), open.is_none() ? nullptr : &layout).release(); });
          },
          nb::arg("tensor"), nb::arg("open") = nb::none(), nb::rv_policy::take_ownership)
      .def(
          "matches", [](const aten::TensorSpec& spec, nb::handle object) { return spec.matches(object.ptr()); },
          nb::arg().none())
      .def(
          "mismatch",
          [](const aten::TensorSpec& spec, nb::handle object) { return nb::str(spec.mismatch(object.ptr()).c_str()); },
          nb::arg().none())
      .def("text", [](const aten::TensorSpec& spec) { return nb::str(spec.text().c_str()); });
  nb::class_<aten::GlobalState>(m, "GlobalState")
      .def_static(
          "now", [] { return guarded([] { return aten::GlobalState::now().release(); }); },
          nb::rv_policy::take_ownership)
      .def("matches", [](const aten::GlobalState& state) { return state.matches(); })
      .def("mismatch", [](const aten::GlobalState& state) { return nb::str(state.mismatch().c_str()); })
      .def("restore", &aten::GlobalState::restore);
}

}  // namespace pellucid::hooks
