#include "trace/trace.h"

#include <mutex>

#include "aten/aten.h"
#include "handlers/registry.h"
#include "trace/executor.h"

namespace pellucid::trace {
namespace {

BreakInfo describe(const GraphBreak& stop, Executor& executor) {
  BreakInfo info;
  info.reason_code = code_of(stop.reason());
  info.reason_name = name_of(stop.reason());
  info.message = stop.message();
  info.hint = hint_of(stop.reason());
  for (Frame* frame = executor.top(); frame != nullptr; frame = frame->back.get()) {
    if (frame->info->hidden) continue;
    BreakInfo::FrameInfo place;
    place.code = py::Owned<PyCodeObject>::share(frame->code);
    place.offset = frame->at;
    place.line = PyCode_Addr2Line(frame->code, frame->at);
    info.stack.insert(info.stack.begin(), std::move(place));
  }
  info.exception = executor.exception.copy();
  return info;
}

// Setting up imports modules, which lets other threads run: they wait here without the GIL, as a static variable's
// guard would not.
void initialise_once() {
  static std::mutex setting_up;
  static bool ready = false;
  if (ready) return;
  PyThreadState* thread = PyEval_SaveThread();
  std::unique_lock lock(setting_up);
  PyEval_RestoreThread(thread);
  if (ready) return;
  initialise();
  ready = true;
}

}  // namespace

Outcome capture(PyFunctionObject* function, PyCodeObject* code, PyObject* const* locals) {
  initialise_once();  // on first use: importing stays cheap, and pellucid itself is complete by then
  Outcome outcome;
  const auto state = aten::GlobalState::now();
  Executor executor(function, code);
  try {
    auto result = executor.run(function, locals);
    const std::int64_t steps = executor.steps;
    const int returned_at = executor.top()->at;
    outcome.capture = executor.finish(std::move(result));
    outcome.capture->instructions = steps;
    outcome.capture->returned_at = returned_at;
    if (!state->matches()) {
      // The region leaves torch in another state: replaying that is the graph's work only when the graph ends there.
      outcome.capture->notes.push_back("leaves global torch state changed: " + state->mismatch());
    }
  } catch (const GraphBreak& stop) {
    outcome.stop = describe(stop, executor);
  }
  state->restore();
  return outcome;
}

void initialise() {
  objects::initialise_objects();
  handlers::initialise();
}

}  // namespace pellucid::trace
