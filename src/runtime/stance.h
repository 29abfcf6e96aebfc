// The stance of the compiler: what calls of compiled functions do, for the whole process. pellucid.set_stance sets it;
// where that left the default, torch.compiler.set_stance's is taken, which is read where torch keeps it.
#pragma once
#include <Python.h>

#include <cstdint>

#include "py/cpython.h"
#include "py/ref.h"

namespace pellucid::runtime {

enum class Stance : std::uint8_t {
  Default,
  ForceEager,
  EagerOnRecompile,
  FailOnRecompile,
  EagerThenCompile,
  AotEagerThenCompile,
};

struct StanceNow {
  Stance stance = Stance::Default;
  bool skips_guards = false;  // only those are asked that have told entries apart
  py::Owned<> backend;        // for all functions, as the user gave it; may be empty
  bool is_plain() const noexcept { return stance == Stance::Default && !skips_guards && !backend; }
};

// A dict that is looked into only after it has changed.
class WatchedDict {
 public:
  bool has_changed() const noexcept { return dict_ && py::dict_version(dict_.get()) != version_; }
  void watch(PyObject* dict) noexcept;  // null: none
  PyObject* get() const noexcept { return dict_.get(); }

 private:
  py::Owned<> dict_;
  std::uint64_t version_ = 0;
};

struct StanceState {
  StanceNow own, torch;
  py::Owned<> observer;            // told of calls of compiled functions from outside of such calls; may be empty
  WatchedDict modules;             // sys.modules
  WatchedDict namespace_of_torch;  // of torch._dynamo.eval_frame, once it has been imported
  bool is_plain = true;
  void refresh() noexcept;  // runs no Python code
};
extern StanceState& stance_state;  // used under the GIL; never destroyed

// The hot path: nothing but the default, anywhere.
inline bool stance_is_plain() noexcept {
  if (stance_state.modules.has_changed() || stance_state.namespace_of_torch.has_changed()) stance_state.refresh();
  return stance_state.is_plain;
}

// As of the last stance_is_plain().
inline const StanceNow& stance_now() noexcept {
  return stance_state.own.is_plain() ? stance_state.torch : stance_state.own;
}

// (name, skips_guards, backend) of pellucid.set_stance; gives what it was. Throws ValueError for a name that is none.
py::Owned<> set_own_stance(PyObject* name, bool skips_guards, PyObject* backend);
// `observer(function, arguments, result)` after each call that gives one and is not inside of another; None: nobody.
void set_call_observer(PyObject* observer);
void initialise_stance();

}  // namespace pellucid::runtime
