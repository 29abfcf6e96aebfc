// The one that the events of the real run are told to: pellucid.events, while anybody has subscribed there. Without a
// subscriber an event costs a look at a pointer. What is told of a region are no texts but a function that makes them.
#pragma once
#include <Python.h>

#include <optional>
#include <string>
#include <utility>

#include "base/events.h"
#include "py/ref.h"
#include "region/capture.h"
#include "runtime/cache.h"
#include "trace/trace.h"

namespace pellucid::runtime {

// Owned; null: nobody listens. Read and written with the GIL held.
inline PyObject* listener = nullptr;

// Hooks change graphs before they run, also those that no backend looks at: pellucid.register_compile_hook.
inline bool graphs_are_changed = false;

inline bool listens() noexcept { return listener != nullptr; }

// Calls the listener with the kind and the fields, a dict. Nothing that it raises gets into the program.
void tell(const char* kind, const py::Owned<>& fields) noexcept;

// Whoever subscribes because of levels of `logging` is asked again when these have changed.
void follow_log_levels();

// A capture as a Python function of one argument, the name of a stage: "graph", "graph_module", "guards",
// "guard_lines", "effects", "emitted", "listing", "end", "open", "unused". It answers as long as this object lives;
// later it raises RuntimeError.
class Reading {
 public:
  Reading(const region::Capture& capture, const Entry& entry, std::string name);
  ~Reading();
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
  PyObject* function() const noexcept { return function_.get(); }

  struct Target {
    const region::Capture* capture;  // null: it is gone
    const Entry* entry;
    std::string name;
  };

 private:
  Target* target_;  // owned by the capsule that `function_` is bound to
  py::Owned<> function_;
};

// What one compile is told of: that it starts and, when this object goes, that it has ended and what its phases took.
class ToldCompile {
 public:
  ToldCompile(PyFunctionObject* function, const Cache& cache, bool fullgraph);
  ~ToldCompile();
  ToldCompile(const ToldCompile&) = delete;
  ToldCompile& operator=(const ToldCompile&) = delete;

 private:
  std::optional<events::TimesOfCompile> times_;  // none: nobody is told
  std::pair<int, int> around_;                   // the compile that this one happens in
  int exceptions_ = 0;
};

void tell_restart(const char* why);  // the program is captured once more
void tell_region(const region::Capture& capture, const Entry& entry, const std::string& name,
                 const trace::BreakInfo* stop);
void tell_backend_starts(const region::Capture& capture, const Entry& entry, const std::string& name,
                         PyObject* backend);
void tell_backend_ends(PyObject* error);  // null: it is done

void add_listening(PyObject* module);

}  // namespace pellucid::runtime
