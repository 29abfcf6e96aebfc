// compile() and re.compile(): a text always gives the same code or pattern, or the same error. A text that CPython
// warns about is left to the interpreter: warnings are for the program's filters, at the time when it runs.
#include "rows/rows.h"

namespace pellucid::rows {
namespace {

// warnings.filters for a time: what compile() warns about raises ("error"), or is passed over ("ignore").
// In the place of a filter's pattern for modules: other threads keep the program's filters.
PyObject* in_thread(PyObject* thread, PyObject*) {
  return PyBool_FromLong(static_cast<long>(PyLong_AsUnsignedLong(thread) == PyThread_get_thread_ident()));
}
PyMethodDef kInThread{"match", in_thread, METH_O, nullptr};

class Filters {
 public:
  explicit Filters(const char* action) : module_(py::module_named("warnings")) {
    before_ = py::take(PyObject_GetAttrString(module_, "filters"));
    auto thread = py::take(PyLong_FromUnsignedLong(PyThread_get_thread_ident()));
    auto match = py::take(PyCFunction_New(&kInThread, thread.get()));
    auto here = py::take(PyObject_CallNoArgs(py::import_attr("types", "SimpleNamespace").get()));
    py::check(PyObject_SetAttrString(here.get(), "match", match.get()));
    auto list = py::take(Py_BuildValue("[(sOOOi)]", action, Py_None, PyExc_Warning, here.get(), 0));
    auto all = py::take(PySequence_Concat(list.get(), before_.get()));
    py::check(PyObject_SetAttrString(module_, "filters", all.get()));
  }
  ~Filters() {
    if (PyObject_SetAttrString(module_, "filters", before_.get()) < 0) PyErr_Clear();
  }
  Filters(const Filters&) = delete;
  Filters& operator=(const Filters&) = delete;

 private:
  PyObject* module_;
  py::Owned<> before_;
};

struct Attempt {
  py::Owned<> code, error;
};

Attempt attempt(PyObject* f, PyObject* args, const char* action) {
  const Filters filters(action);
  Attempt done;
  done.code = py::Owned<>::steal(PyObject_CallObject(f, args));
  if (!done.code) done.error = py::Owned<>::share(py::PythonError().value());
  return done;
}

bool same_error(PyObject* a, PyObject* b) {
  if (a == nullptr || b == nullptr || Py_TYPE(a) != Py_TYPE(b)) return false;
  auto left = py::take(PyObject_GetAttrString(a, "args")), right = py::take(PyObject_GetAttrString(b, "args"));
  const int same = PyObject_RichCompareBool(left.get(), right.get(), Py_EQ);
  py::check(same);
  return same == 1;
}

// All six arguments by position, with the flags of the frame that calls; null: not such that the rule covers them.
py::Owned<> arguments(Interpreter& t, Args args) {
  static const char* const words[] = {"source", "filename", "mode", "flags", "dont_inherit", "optimize", nullptr};
  auto positional = tuple_of(args.positional());
  auto named = py::take(PyDict_New());
  for (std::size_t i = 0; i < args.keyword_count(); ++i)
    py::check(PyDict_SetItem(named.get(), PyTuple_GET_ITEM(args.kwnames, i), args.values[args.size() + i]));
  PyObject *source = nullptr, *filename = nullptr, *mode = nullptr;
  int flags = 0, alone = 0, optimize = -1;
  if (PyArg_ParseTupleAndKeywords(positional.get(), named.get(), "UUU|ipi", const_cast<char**>(words), &source,
                                  &filename, &mode, &flags, &alone, &optimize) == 0) {
    PyErr_Clear();
    return {};
  }
  for (PyObject* text : {source, filename, mode}) {
    if (!PyUnicode_CheckExact(text)) return {};
  }
  if ((flags & ~PyCF_MASK) != 0) return {};  // a tree of the module ast, above all
  if (alone == 0) flags |= t.region.top->code->co_flags & PyCF_MASK;
  return py::take(Py_BuildValue("(OOOiii)", source, filename, mode, flags, 1, optimize));
}

Result compile(Interpreter& t, PyObject* f, Args args) {
  const auto all = arguments(t, args);
  if (!all) unsupported(Reason::BadArguments, {{"callee", "compile() of no text"}});
  Attempt done = attempt(f, all.get(), "error");
  if (done.code) return Result::of(std::move(done.code));
  if (!same_error(done.error.get(), attempt(f, all.get(), "ignore").error.get()))
    unsupported(Reason::UntracedCallable, {{"callee", "compile() of a text that CPython warns about"}});
  return t.raise(std::move(done.error));
}

// It has no effect but on a cache that only makes it faster, and what it prints with re.DEBUG.
Result compile_pattern(Interpreter& t, PyObject* f, Args args) {
  constexpr long kDebug = 128;
  for (PyObject* value : args.values) {
    if (!region::is_atom(region::cat_of(value)))
      unsupported(Reason::BadArguments, {{"callee", "re.compile of what is no text"}});
  }
  if (args.size() > 1 && PyLong_Check(args[1]) && (PyLong_AsUnsignedLongMask(args[1]) & kDebug) != 0)
    unsupported(Reason::SideEffect, {{"callee", "re.compile with re.DEBUG"}});
  py::Owned<> pattern;
  {
    const Filters filters("error");
    pattern = py::Owned<>::steal(PyObject_Vectorcall(f, args.values.data(), args.size(), args.kwnames));
    if (!pattern) {
      const py::PythonError error;
      if (PyErr_GivenExceptionMatches(error.value(), PyExc_Warning) != 0)
        unsupported(Reason::UntracedCallable, {{"callee", "re.compile of a pattern that Python warns about"}});
      return t.raise_pending(error);
    }
  }
  t.region.provenance.note_constant(pattern.get());
  return Result::of(std::move(pattern));
}

const Row rows[] = {{"builtins.compile", compile}, {"re._compile", compile_pattern}};

}  // namespace

const std::span<const Row> kCompilingRows = rows;

}  // namespace pellucid::rows
