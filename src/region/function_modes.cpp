#include "region/function_modes.h"

#include "aten/function_modes.h"
#include "region/region.h"

namespace pellucid::region {

void FunctionModes::follow(std::vector<py::Owned<>> modes) {
  region_.doing = "is called in a torch function mode";
  stack_ = std::move(modes);
  before_ = kept_ = stack_.size();
  followed_ = region_.capture->follows_modes = true;
  for (std::size_t i = 0; i < before_; ++i)
    region_.provenance.note_read(stack_[i].get(), region_.capture->sources.function_mode(static_cast<std::int64_t>(i)));
}

void FunctionModes::must_follow() {
  if (followed_) return;
  if (!aten::function_modes().empty()) {
    are_asked_for = true;
    unsupported(Reason::TorchFunctionMode, {{"callee", "a default device"}});
  }
  followed_ = region_.capture->follows_modes = true;
}

void FunctionModes::push(PyObject* mode) {
  must_follow();
  ++region_.outside_writes;
  stack_.push_back(py::Owned<>::share(mode));
  region_.provenance.keep(mode);
}

py::Owned<> FunctionModes::pop() {
  must_follow();
  if (stack_.empty()) return {};
  auto mode = std::move(stack_.back());
  stack_.pop_back();
  kept_ = std::min(kept_, stack_.size());
  return mode;
}

const std::vector<py::Owned<>>& FunctionModes::stack() {
  must_follow();
  return stack_;
}

bool FunctionModes::are_asked() const { return !stack_.empty() && aten::asks_function_modes(); }

void FunctionModes::leave_changes() {
  const auto call = [&](const py::Owned<>& function, PyObject* argument) {
    region_.provenance.note_constant(function.get());
    auto arguments = py::take(PyTuple_Pack(1, argument)), keywords = py::take(PyDict_New());
    region_.deferred.add(function.get(), arguments.get(), keywords.get());
  };
  // A mode that was left and entered again at its place has not changed.
  while (kept_ < stack_.size() && kept_ < before_ &&
         stack_[kept_].get() == aten::function_mode_at(static_cast<std::int64_t>(kept_)))
    ++kept_;
  if (kept_ < before_) call(aten::leave_function_modes(), py::take(PyLong_FromSize_t(before_ - kept_)).get());
  for (std::size_t i = kept_; i < stack_.size(); ++i) call(aten::enter_function_mode(), stack_[i].get());
}

}  // namespace pellucid::region
