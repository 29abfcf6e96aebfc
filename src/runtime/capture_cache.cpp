#include "runtime/capture_cache.h"

#include <utility>

#include "aten/world.h"
#include "backend/fx.h"
#include "base/events.h"
#include "codegen/emit.h"
#include "guards/report.h"
#include "py/cpython.h"
#include "py/interrupts.h"
#include "runtime/compile.h"
#include "runtime/graph_call.h"
#include "runtime/kept_region.h"
#include "runtime/listener.h"
#include "runtime/thread_state.h"
#include "trace/setup.h"

namespace pellucid::runtime {
namespace {

thread_local CaptureCache* innermost = nullptr;

constexpr const char* kModule = "pellucid._capture_cache";

// What tells the calls of one function apart, as far as the classes and the layouts of tensors among its arguments do:
// others are not worth looking at. It decides nothing, since what is found is checked.
void add_words(std::string& text, PyObject* value, int depth) {
  text.append(Py_TYPE(value)->tp_name);
  if (aten::is_plain_tensor(value)) {
    text.append(" ").append(aten::layout_text(value));
  } else if (depth > 0 && PyTuple_CheckExact(value)) {
    text.append("(");
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i) add_words(text, PyTuple_GET_ITEM(value, i), depth - 1);
    text.append(")");
  } else if (depth > 0 && PyDict_CheckExact(value)) {
    text.append("{");
    PyObject *key = nullptr, *item = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(value, &at, &key, &item) != 0;) {
      text.append(py::text_of(key)).append("=");
      add_words(text, item, depth - 1);
    }
    text.append("}");
  }
  text.append(",");
}

std::string words_of_call(PyFunctionObject* function, PyObject* const* locals) {
  const auto* const code = reinterpret_cast<PyCodeObject*>(function->func_code);
  const int count = code->co_argcount + code->co_kwonlyargcount + ((code->co_flags & CO_VARARGS) != 0 ? 1 : 0) +
                    ((code->co_flags & CO_VARKEYWORDS) != 0 ? 1 : 0);
  std::string text = aten::state_text();
  for (int i = 0; i < count; ++i) add_words(text, locals[i], 2);
  return text;
}

py::Owned<> as_bytes(const std::string& text) {
  return py::take(PyBytes_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
}

// A backend that looks at the graph gets the one that capture has made, with what it knows of it.
bool is_served(PyObject* backend) {
  auto filter = py::Owned<>::steal(PyObject_GetAttrString(backend, "guard_filter_fn"));
  if (!filter) PyErr_Clear();
  const bool filters = filter && filter.get() != Py_None;
  return has_mark(backend, "runs_as_captured") && !has_mark(backend, "exports") && !filters;
}

}  // namespace

CaptureCache::CaptureCache(PyFunctionObject* function, PyObject* const* locals, Cache& cache, bool fullgraph)
    : function_(function), locals_(locals), cache_(cache), outer_(std::exchange(innermost, this)) {
  static PyObject* const folder = py::import_attr(kModule, "_folder").release();
  try {
    const auto where = py::take(PyObject_CallNoArgs(folder));
    // Whoever listens wants to see the capture.
    if (where.get() == Py_None || listens()) return;
    PyObject* const backend = cache.key().backend;
    const char* const refusal = aten::state_text().empty() ? "modes, hooks or transforms of torch are open"
                                : !is_served(backend) ? "the backend looks at the graph, which only a capture makes"
                                                      : nullptr;
    if (refusal != nullptr) {
      tell("not kept", refusal);
      return;
    }
    const std::string digest = code_digest(function->func_code), words = words_of_call(function, locals);
    PyObject* const instance = cache.key().instance;
    const auto find = py::import_attr(kModule, "_key");
    key_ = py::take(PyObject_CallFunctionObjArgs(find.get(), where.get(), function, backend, as_bytes(digest).get(),
                                                 as_bytes(words).get(), fullgraph ? Py_True : Py_False,
                                                 instance == nullptr ? Py_None : instance, nullptr));
    if (key_.get() == Py_None) key_ = {};
  } catch (...) {
    innermost = outer_;
    throw;
  }
}

CaptureCache::~CaptureCache() { innermost = outer_; }

CaptureCache* CaptureCache::here() noexcept { return innermost; }

void CaptureCache::tell(const char* what, const std::string& why) const {
  // Parts of a file may be among the words.
  const auto words =
      py::take(PyUnicode_DecodeUTF8(why.data(), static_cast<Py_ssize_t>(why.size()), "backslashreplace"));
  const std::string text = py::text_of(words.get());
  events::record("capture_cache", place_of(function_) + ": " + what + (text.empty() ? "" : ": " + text));
  const auto note = py::import_attr(kModule, "_note");
  PyObject* const instance = cache_.key().instance;
  (void)py::take(PyObject_CallFunction(note.get(), "OOsO", function_, instance == nullptr ? Py_None : instance, what,
                                       words.get()));
}

std::unique_ptr<Entry> CaptureCache::load() {
  if (!key_) return nullptr;
  const auto read = py::import_attr(kModule, "_read");
  const auto found = py::take(PyObject_CallOneArg(read.get(), key_.get()));  // a list of bytes
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(found.get()); ++i) {
    try {
      auto entry = entry_of(PyList_GET_ITEM(found.get(), i));
      tell("loaded", "");
      return entry;
    } catch (const Miss& miss) {
      tell("missed", miss.why);
    } catch (const GraphBreak& split) {
      tell("missed", split.message());
    } catch (const py::Interruption&) {
      throw;
    } catch (const py::PythonError& error) {
      // A text that is none, a number that is too large: no code of the program ran that could have raised.
      if (py::is_interruption(error.value()) || PyErr_GivenExceptionMatches(error.value(), PyExc_Exception) == 0) throw;
      tell("missed", py::repr_of(error.value()));
    } catch (const std::exception& error) {
      tell("missed", error.what());
    }
  }
  return nullptr;
}

std::unique_ptr<Entry> CaptureCache::entry_of(PyObject* bytes) {
  const std::int64_t start = events::now();
  const std::string_view text(PyBytes_AS_STRING(bytes), static_cast<std::size_t>(PyBytes_GET_SIZE(bytes)));
  const CompilingScope scope;
  trace::initialise_types_once();
  auto kept = read_region(text, function_, locals_);
  region::Capture& capture = kept->capture;
  auto guards = guards::GuardProgram::compile(capture.sources, capture.guards.release(), function_,
                                              codegen::graph_inputs(capture));
  PyObject* const closure = function_->func_closure;
  if (!guards->check(locals_, closure)) throw Miss{guards::GuardReport(*guards).explain(locals_, closure)};
  cache_.begin_compile();
  auto entry = std::make_unique<Entry>();
  entry->number = next_region_number();
  entry->guards = std::move(guards);
  const std::string name = "__compiled_fn_" + std::to_string(entry->number);
  if (codegen::calls_graph(capture)) {
    const auto forward = backend::native_forward(capture.graph);
    entry->graph_call =
        make_graph_call(function_, forward.get(), GraphFacts{std::move(kept->undo), {}}, aten::GlobalState::now());
    events::count(events::Counter::Graphs);
  }
  auto region = codegen::emit(capture, std::move(kept->plan), entry->graph_call.get(), name);
  entry->region = std::move(region.function);
  entry->input_loader = region.input_loader;
  entry->depth = capture.depth;
  cache_.numbers.note(capture.numbers);
  events::count(events::Counter::Entries);
  events::time("capture_cache", events::milliseconds_since(start));
  return entry;
}

void CaptureCache::note(const Cache& cache, const region::Capture& capture, const trace::BreakInfo* stop) {
  bytes_.clear();
  unkept_.clear();
  if (!key_ || &cache != &cache_) return;
  try {
    if (stop != nullptr) throw Unkept{"there is a graph break in it: " + stop->message};
    bytes_ = kept_bytes(capture, locals_);
  } catch (const Unkept& unkept) {
    unkept_ = unkept.why;
  } catch (const GraphBreak& split) {
    unkept_ = split.message();
  }
}

void CaptureCache::keep() {
  if (!key_) return;
  if (bytes_.empty()) return tell("not kept", unkept_);
  const auto write = py::import_attr(kModule, "_write");
  const auto why = py::take(PyObject_CallFunctionObjArgs(write.get(), key_.get(), as_bytes(bytes_).get(), nullptr));
  const std::string failure = py::text_of(why.get());
  tell(failure.empty() ? "kept" : "not kept", failure);
}

}  // namespace pellucid::runtime
