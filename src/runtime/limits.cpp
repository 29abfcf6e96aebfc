#include "runtime/limits.h"

#include "base/events.h"
#include "guards/report.h"
#include "runtime/compile.h"
#include "runtime/stance.h"

namespace pellucid::runtime {
namespace {

constexpr std::size_t kKeptFailures = 100;

struct Miss {
  Cache& cache;
  Cache& root;
  PyFunctionObject* function;
  PyObject* const* slots;
  PyObject* closure;

  // May be null.
  PyObject* first_argument() const noexcept {
    return reinterpret_cast<PyCodeObject*>(function->func_code)->co_argcount > 0 ? slots[0] : nullptr;
  }
};

// A warning once for each limit, or an error.
void report_limit(const Miss& miss, const char* limit, const std::string& reason, bool fullgraph) {
  events::count(events::Counter::LimitHits);
  auto report = py::import_attr("pellucid._logging", "_report_recompile_limit");
  PyObject* first = miss.first_argument();
  const auto done =
      py::take(PyObject_CallFunction(report.get(), "OOsOO", miss.function, first == nullptr ? Py_None : first, limit,
                                     py::str(reason).get(), fullgraph ? Py_True : Py_False));
  miss.cache.reported_limit = limit;
}

void refuse_compile(const Miss& miss, const std::string& reason, const char* rule) {
  auto refuse = py::import_attr("pellucid._logging", "_raise_recompile_error");
  PyObject* first = miss.first_argument();
  const auto done = py::take(PyObject_CallFunction(refuse.get(), "OOOs", miss.function,
                                                   first == nullptr ? Py_None : first, py::str(reason).get(), rule));
}

std::string note_miss(const Miss& miss) {
  std::string newest = explain_misses(miss.cache, miss.root, miss.slots, miss.closure);
  if (!newest.empty()) {
    events::count(events::Counter::Recompiles);
    events::record("miss", place_of(miss.function) + ": " + newest);
  }
  return newest;
}

}  // namespace

std::string explain_misses(Cache& cache, Cache& root, PyObject* const* slots, PyObject* closure) {
  std::string newest;
  const auto entries = cache.entries();
  for (const auto& entry : entries) {
    const auto failed = guards::GuardReport(*entry->guards).first_miss(slots, closure);
    if (failed && entry->tells.may_hold(*entry->guards, slots, closure))
      entry->tells.add(*entry->guards, failed->guard);
    std::string reason = failed ? failed->message() : std::string();
    if (newest.empty()) newest = reason;
    if (root.guard_failures.size() < kKeptFailures) root.guard_failures.push_back(std::move(reason));
  }
  return newest;
}

bool stance_keeps_from(const Cache& cache) noexcept {
  switch (stance_now().stance) {
    case Stance::ForceEager:
    case Stance::EagerOnRecompile:
      return true;
    case Stance::FailOnRecompile:
      return !cache.given_up;  // then there is nothing to compile
    default:
      return false;
  }
}

void refuse_by_stance(Cache& cache, Cache& root, PyFunctionObject* function, PyObject* const* slots,
                      PyObject* closure) {
  if (stance_now().stance != Stance::FailOnRecompile) return;
  const Miss miss{cache, root, function, slots, closure};
  refuse_compile(miss, explain_misses(cache, root, slots, closure), "the stance \"fail_on_recompile\"");
}

bool has_room(const Cache& cache) {
  return cache.entries().size() < static_cast<std::size_t>(config_number("recompile_limit"));
}

Verdict may_compile(Cache& cache, Cache& root, PyFunctionObject* function, PyObject* const* slots, PyObject* closure,
                    bool fullgraph) {
  const Miss miss{cache, root, function, slots, closure};
  const bool again = cache.entries_made() != 0;
  const bool ends = again && root.recompiles >= config_number("accumulated_recompile_limit");
  const bool has_place = has_room(cache);
  if (ends || !has_place) {
    const bool is_error = fullgraph || config_number("fail_on_recompile_limit_hit") != 0;
    const bool replaces = !ends && !is_error && cache.entry_gives_way(config_number("recompile_patience"));
    if (!replaces) {
      const char* limit = ends ? "accumulated_recompile_limit" : "recompile_limit";
      if (is_error || cache.reported_limit != limit) report_limit(miss, limit, note_miss(miss), fullgraph);
      return Verdict::Refused;
    }
  }
  const std::string reason = note_miss(miss);
  if (again && config_number("error_on_recompile") != 0) refuse_compile(miss, reason, "config.error_on_recompile");
  if (again) ++root.recompiles;
  return has_place ? Verdict::Allowed : Verdict::Replaces;
}

}  // namespace pellucid::runtime
