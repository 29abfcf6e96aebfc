// Who sees a call of logging or warnings when it happens: the streams of this process, which a region cannot read, or
// objects of the program, which may be asked before the region has ended, and may raise. Only the first kind may wait.
#include "protocols/deferred.h"
#include "region/snapshot.h"
#include "rows/rows.h"

namespace pellucid::rows {
namespace {

constexpr int kLoggers = 50;  // a chain of parents that has no end is the program's own doing

[[noreturn]] void is_seen(PyObject* callable) {
  unsupported(Reason::SideEffect, {{"callee", describe(callable) + ", which an object of the program sees,"}});
}

// What the attribute is now, guarded.
py::Owned<> part(Interpreter& t, PyObject* callable, PyObject* object, const char* name) {
  Result value = protocols::getattr(t, object, py::interned(name).get());
  if (!value.is_value()) is_seen(callable);
  return py::Owned<>::share(t.region.numbers.plain(value.value.get()));
}

// The items of a list that is as it is now in later calls too.
std::vector<py::Owned<>> items(Interpreter& t, PyObject* callable, PyObject* list) {
  if (!PyList_CheckExact(list)) is_seen(callable);
  return region::items_now(t.region.reads.touch(list));
}

// A stream of this process, or one in memory, that runs nothing of the program's when it is written to.
void need_stream(Interpreter& t, PyObject* callable, PyObject* object) {
  static PyObject* const kinds = [] {
    auto text = py::import_attr("io", "TextIOWrapper"), memory = py::import_attr("io", "StringIO");
    return py::take(PyTuple_Pack(2, text.get(), memory.get())).release();
  }();
  PyTypeObject* type = Py_TYPE(object);
  for (const char* method : {"write", "flush", "__getattribute__"}) {
    PyObject* found = t.region.lookups.type_lookup(type, method);
    if (found != nullptr && PyFunction_Check(found)) is_seen(callable);
  }
  if (PyObject_IsInstance(object, kinds) != 1) is_seen(callable);
  if (const region::Source* source = t.region.provenance.source_of(object))
    t.region.provenance.guard(region::Kind::TYPE_MATCH, source, py::Owned<>::share(reinterpret_cast<PyObject*>(type)));
}

// What stderr is then.
void need_plain_stderr(Interpreter& t, PyObject* callable) {
  PyObject* sys = py::module_named("sys");
  t.region.provenance.note_constant(sys);
  need_stream(t, callable, part(t, callable, sys, "stderr").get());
}

bool is_of_module(PyObject* object, const char* module) {
  auto name = py::Owned<>::steal(PyObject_GetAttr(object, region::names().__module__));
  if (!name) PyErr_Clear();
  return name && PyUnicode_Check(name.get()) && PyUnicode_CompareWithASCIIString(name.get(), module) == 0;
}

// Methods that an object of the module logging has of its own, in place of its class's. A method of a stream runs
// nothing of the program's: some handlers flush with it.
void need_no_own(Interpreter& t, PyObject* callable, PyObject* object, std::initializer_list<const char*> methods) {
  for (const char* method : methods) {
    PyObject* const own = t.region.lookups.instance_get(object, py::interned(method).get());
    if (own == nullptr) continue;
    if (!PyCFunction_CheckExact(own) || PyCFunction_GET_SELF(own) == nullptr) is_seen(callable);
    need_stream(t, callable, PyCFunction_GET_SELF(own));
    t.region.provenance.guard_identity(own);
  }
}

// A handler of the module logging that writes to a stream, or does nothing.
void need_plain_handler(Interpreter& t, PyObject* callable, PyObject* handler) {
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(handler));
  if (!is_of_module(type, "logging")) is_seen(callable);
  need_no_own(t, callable, handler,
              {"handle", "emit", "handleError", "format", "filter", "flush", "acquire", "release"});
  if (!items(t, callable, part(t, callable, handler, "filters").get()).empty()) is_seen(callable);
  const auto formatter = part(t, callable, handler, "formatter");
  if (formatter.get() != Py_None) {
    if (!is_of_module(reinterpret_cast<PyObject*>(Py_TYPE(formatter.get())), "logging")) is_seen(callable);
    need_no_own(t, callable, formatter.get(),
                {"format", "formatTime", "formatMessage", "formatException", "formatStack", "usesTime", "converter"});
  }
  if (PyObject_HasAttrString(type, "stream") != 0) return need_plain_stderr(t, callable);  // a property that asks sys
  if (PyObject_HasAttrString(handler, "stream") != 0)
    need_stream(t, callable, part(t, callable, handler, "stream").get());
}

void need_plain_loggers(Interpreter& t, PyObject* callable, PyObject* logger) {
  PyObject* module = py::module_named("logging");
  t.region.provenance.note_constant(module);
  if (!is_of_module(part(t, callable, module, "_logRecordFactory").get(), "logging")) is_seen(callable);
  auto held = py::Owned<>::share(logger);
  for (int i = 0; i < kLoggers; ++i) {
    if (!is_of_module(reinterpret_cast<PyObject*>(Py_TYPE(held.get())), "logging")) break;
    need_no_own(
        t, callable, held.get(),
        {"_log", "handle", "makeRecord", "findCaller", "callHandlers", "isEnabledFor", "getEffectiveLevel", "filter"});
    if (!items(t, callable, part(t, callable, held.get(), "filters").get()).empty()) break;
    for (const auto& handler : items(t, callable, part(t, callable, held.get(), "handlers").get()))
      need_plain_handler(t, callable, handler.get());
    if (part(t, callable, held.get(), "propagate").get() == Py_False) return;
    held = part(t, callable, held.get(), "parent");
    if (held.get() == Py_None) return;
  }
  is_seen(callable);
}

// Not recorded, shown by the program's own function, or raised.
void need_plain_warnings(Interpreter& t, PyObject* callable) {
  PyObject* module = py::module_named("warnings");
  t.region.provenance.note_constant(module);
  const auto show = part(t, callable, module, "showwarning"), usual = part(t, callable, module, "_showwarning_orig"),
             print = part(t, callable, module, "_showwarnmsg_impl");
  if (show.get() != usual.get() || !PyFunction_Check(print.get()) || !is_of_module(print.get(), "warnings"))
    is_seen(callable);
  const auto filters = part(t, callable, module, "filters");
  for (const auto& filter : items(t, callable, filters.get())) {
    if (!PyTuple_CheckExact(filter.get()) || PyTuple_GET_SIZE(filter.get()) == 0) is_seen(callable);
    t.region.provenance.guard_identity(filter.get());
    PyObject* action = PyTuple_GET_ITEM(filter.get(), 0);
    if (!PyUnicode_Check(action) || PyUnicode_CompareWithASCIIString(action, "error") == 0) is_seen(callable);
  }
  need_plain_stderr(t, callable);
}

void need_no_observer(Interpreter& t, PyObject* callable, Args args) {
  if (is_of_module(callable, "warnings")) {
    need_plain_warnings(t, callable);
  } else if (args.size() > 0) {
    need_plain_loggers(t, callable, args[0]);
  }
}

// protocols::defer, unless an object of the program would see the call.
Result defer(Interpreter& t, PyObject* callable, Args args) {
  need_no_observer(t, callable, args);
  return protocols::defer(t, callable, args);
}

const Row rows[] = {
    {"logging.Logger.debug", defer, true, true},    {"logging.Logger.info", defer, true, true},
    {"logging.Logger.warning", defer, true, true},  {"logging.Logger.error", defer, true, true},
    {"logging.Logger.critical", defer, true, true}, {"logging.Logger.log", defer, true, true},
    {"logging.Logger.warn", defer, true, true},     {"warnings.warn", defer},
};

}  // namespace

const std::span<const Row> kLoggingRows = rows;

}  // namespace pellucid::rows
