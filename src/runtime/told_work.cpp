#include "runtime/told_work.h"

#include "runtime/compile.h"

namespace pellucid::runtime {

std::optional<progress::Work> told_work(const std::function<std::string()>& what) {
  if (config_number("progress") == 0 || !progress::has_reader()) return std::nullopt;
  PyObject* const now = PySys_GetObject("stderr");
  if (now == nullptr || now != PySys_GetObject("__stderr__")) return std::nullopt;
  return std::optional<progress::Work>(std::in_place, what());
}

}  // namespace pellucid::runtime
