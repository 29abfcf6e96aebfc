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

  // None where there is none. Behind a graph break it is no argument that counts but the module that was called.
  PyObject* first_argument() const noexcept {
    PyObject* first = nullptr;
    if (&cache != &root) {
      first = root.key().instance;
    } else if (reinterpret_cast<PyCodeObject*>(function->func_code)->co_argcount > 0) {
      first = slots[0];
    }
    return first == nullptr ? Py_None : first;
  }
};

// A warning once for each limit, or an error.
void report_limit(const Miss& miss, const char* limit, const std::string& reason, bool fullgraph) {
  events::count(events::Counter::LimitHits);
  auto report = py::import_attr("pellucid._logging", "_report_recompile_limit");
  PyObject* first = miss.first_argument();
  const auto done = py::take(PyObject_CallFunction(report.get(), "OOsOO", miss.function, first, limit,
                                                   py::str(reason).get(), fullgraph ? Py_True : Py_False));
  miss.cache.reported_limit = limit;
}

void refuse_compile(const Miss& miss, const std::string& reason, const char* rule) {
  auto refuse = py::import_attr("pellucid._logging", "_raise_recompile_error");
  PyObject* first = miss.first_argument();
  const auto done =
      py::take(PyObject_CallFunction(refuse.get(), "OOOs", miss.function, first, py::str(reason).get(), rule));
}

Misses note_miss(const Miss& miss) {
  Misses all = explain_misses(miss.cache, miss.root, miss.function, miss.slots, miss.closure);
  if (!all.newest.empty()) events::record("miss", place_of(miss.function) + ": " + all.newest);
  return all;
}

py::Owned<> new_record(const Miss& miss, const Misses& misses) {
  auto make = py::import_attr("pellucid._recompiles", "_record_recompile");
  PyObject* first = miss.first_argument();
  auto record =
      py::take(PyObject_CallFunctionObjArgs(make.get(), miss.function, first, miss.cache.begins_at_as_tuple().get(),
                                            misses.failures.get(), miss.cache.key().backend, nullptr));
  auto& kept = miss.root.recompile_records;
  kept.push_back(record.copy());
  if (kept.size() > kKeptFailures) kept.erase(kept.begin());
  return record;
}

// What earlier captures have seen of the number that is missed: "pinned", the program asked for its value, so another
// one is another region; "open", later regions leave it open; "" otherwise.
const char* history_of(const Cache& cache, const guards::Miss& miss) {
  const region::SeenNumber* seen = miss.source == nullptr ? nullptr : cache.numbers.find(region::hash_of(miss.source));
  if (seen == nullptr) return "";
  return seen->pinned ? "pinned" : seen->open ? "open" : "";
}

py::Owned<> row_of(const Cache& cache, const guards::Miss& miss) {
  const auto& about = miss.description;
  return py::take(Py_BuildValue("(sssssisss)", about.kind.c_str(), about.source.c_str(), miss.expected.c_str(),
                                miss.found.c_str(), about.file.c_str(), about.line, about.operation.c_str(),
                                miss.suggestion.c_str(), history_of(cache, miss)));
}

// The rows as pellucid.GuardFailure, in the words of the program and with the advice that fits the backend; and a text
// with a line for each.
std::pair<py::Owned<>, std::string> told(const Miss& miss, PyObject* rows) {
  auto tell = py::import_attr("pellucid._recompiles", "_tell_failures");
  const auto told = py::take(PyObject_CallFunctionObjArgs(tell.get(), miss.function, miss.first_argument(),
                                                          miss.cache.begins_at_as_tuple().get(), rows,
                                                          miss.cache.key().backend, nullptr));
  return {py::Owned<>::share(PyTuple_GET_ITEM(told.get(), 0)), py::text_of(PyTuple_GET_ITEM(told.get(), 1))};
}

}  // namespace

Misses explain_misses(Cache& cache, Cache& root, PyFunctionObject* function, PyObject* const* slots,
                      PyObject* closure) {
  const Miss of_call{cache, root, function, slots, closure};
  Misses all{.newest = {}, .failures = py::take(PyList_New(0))};
  const auto entries = cache.entries();
  for (const auto& entry : entries) {
    auto failed = guards::GuardReport(*entry->guards).misses(slots, closure);
    if (failed.empty()) continue;
    if (entry->tells.may_hold(*entry->guards, slots, closure)) entry->tells.add(*entry->guards, failed.front().guard);
    auto rows = py::take(PyList_New(0));
    for (const guards::Miss& miss : failed) py::check(PyList_Append(rows.get(), row_of(cache, miss).get()));
    auto [failures, reason] = told(of_call, rows.get());
    py::check(PyList_Append(all.failures.get(), py::take(Py_BuildValue("(iO)", entry->number, failures.get())).get()));
    if (all.newest.empty()) all.newest = reason;
    if (root.guard_failures.size() < kKeptFailures) root.guard_failures.push_back(std::move(reason));
  }
  return all;
}

void Permission::note_cost(int region) const {
  if (!record) return;
  auto note = py::import_attr("pellucid._recompiles", "_note_cost");
  const auto done =
      py::take(PyObject_CallFunction(note.get(), "Odi", record.get(), events::milliseconds_since(since), region));
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
  refuse_compile(miss, explain_misses(cache, root, function, slots, closure).newest,
                 "the stance \"fail_on_recompile\"");
}

bool has_room(const Cache& cache) {
  if (has_mark(cache.key().backend, "has_no_limit")) return true;
  return cache.entries().size() < static_cast<std::size_t>(config_number("recompile_limit"));
}

Permission may_compile(Cache& cache, Cache& root, PyFunctionObject* function, PyObject* const* slots, PyObject* closure,
                       bool fullgraph) {
  const Miss miss{cache, root, function, slots, closure};
  const bool again = cache.entries_made() != 0;
  const bool ends = again && root.recompiles >= config_number("accumulated_recompile_limit") &&
                    !has_mark(cache.key().backend, "has_no_limit");
  const bool has_place = has_room(cache);
  if (ends || !has_place) {
    const bool is_error = fullgraph || config_number("fail_on_recompile_limit_hit") != 0;
    const bool may_replace = !ends && !is_error && !cache.entries().empty();
    const bool replaces = may_replace && cache.entry_gives_way(config_number("recompile_patience"));
    if (!replaces) {
      const char* limit = ends ? "accumulated_recompile_limit" : "recompile_limit";
      if (is_error || cache.reported_limit != limit) report_limit(miss, limit, note_miss(miss).newest, fullgraph);
      return {};
    }
  }
  const Misses misses = note_miss(miss);
  Permission given{.verdict = has_place ? Verdict::Allowed : Verdict::Replaces, .record = {}, .since = events::now()};
  if (!again) return given;
  if (config_number("error_on_recompile") != 0) refuse_compile(miss, misses.newest, "config.error_on_recompile");
  ++root.recompiles;
  events::count(events::Counter::Recompiles);
  given.record = new_record(miss, misses);
  return given;
}

}  // namespace pellucid::runtime
