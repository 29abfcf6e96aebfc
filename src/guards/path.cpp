#include "guards/path.h"

#include <algorithm>

namespace pellucid::guards {
namespace {

using source::Source;

bool is_plain(source::Step step) noexcept {
  using source::Step;
  return step == Step::Local || step == Step::Free || step == Step::Const || step == Step::InstanceAttr ||
         step == Step::Item || step == Step::DictItem || step == Step::CellContents;
}

}  // namespace

bool is_path(const Source* source, Path& path) {
  constexpr std::size_t kLongest = 6;
  for (const Source* s = source; s != nullptr; s = s->base) {
    if (!is_plain(s->step) || path.size() == kLongest) return false;
    path.push_back(s);
  }
  std::ranges::reverse(path);
  return true;
}

PyObject* object_at(const Path& path, std::size_t steps, PyObject* const* locals, PyObject* closure) noexcept {
  PyObject* value = nullptr;
  for (std::size_t i = 0; i < steps; ++i) {
    py::Owned<> fresh;  // another reference, if anything
    value = source::load_step(*path[i], value, locals, closure, fresh);
    if (value == nullptr) return value;
  }
  return value;
}

}  // namespace pellucid::guards
