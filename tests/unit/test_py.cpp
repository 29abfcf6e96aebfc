#include "check.h"
#include "py/cpython.h"
#include "py/ref.h"

using namespace pellucid;

namespace {

// Runs `source` and gives its namespace.
py::Owned<> run(const char* source) {
  auto globals = py::take(PyDict_New());
  py::check(PyDict_SetItemString(globals.get(), "__builtins__", PyEval_GetBuiltins()));
  (void)py::take(PyRun_String(source, Py_file_input, globals.get(), globals.get()));
  return globals;
}
PyObject* get(const py::Owned<>& globals, const char* name) { return PyDict_GetItemString(globals.get(), name); }
PyTypeObject* type(const py::Owned<>& globals, const char* name) {
  return reinterpret_cast<PyTypeObject*>(get(globals, name));
}
long as_long(PyObject* object) { return object == nullptr ? -999 : PyLong_AsLong(object); }

constexpr const char* kInstances = R"(
class C:
    shared = 1
    def __init__(self): self.a, self.b = 10, 20
inline, split, combined, empty, deleted = C(), C(), C(), C.__new__(C), C()
split.__dict__
combined.__dict__ = {'z': 5, 'a': 11}
del deleted.a
class Slots:
    __slots__ = ('s',)
slots = Slots()
class D(dict): pass
sub = D(k=1); sub.a = 33
class Odd:
    def __hash__(self): return hash('a')
    def __eq__(self, other): raise RuntimeError('odd')
odd = C(); odd.__dict__ = {Odd(): 1}
)";

}  // namespace

TEST("instance_attr: inline values, split, combined, none") {
  const auto g = run(kInstances);
  const auto a = py::interned("a"), missing = py::interned("missing"), shared = py::interned("shared");
  for (const char* name : {"inline", "split"}) CHECK_EQ(as_long(py::instance_attr(get(g, name), a.get())), 10);
  CHECK_EQ(as_long(py::instance_attr(get(g, "combined"), a.get())), 11);
  CHECK_EQ(as_long(py::instance_attr(get(g, "sub"), a.get())), 33);
  for (const char* name : {"inline", "split", "combined", "empty", "slots", "sub"}) {
    CHECK(py::instance_attr(get(g, name), missing.get()) == nullptr);
    CHECK(py::instance_attr(get(g, name), shared.get()) == nullptr);
  }
  CHECK(py::instance_attr(get(g, "empty"), a.get()) == nullptr);
  CHECK(py::instance_attr(get(g, "deleted"), a.get()) == nullptr);
  CHECK_EQ(as_long(py::instance_attr(get(g, "deleted"), py::interned("b").get())), 20);
  CHECK_EQ(as_long(py::instance_attr(get(g, "C"), shared.get())), 1);
  CHECK(py::instance_attr(Py_None, a.get()) == nullptr);
  CHECK_THROWS(py::PythonError, py::instance_attr(get(g, "odd"), a.get()));
}

TEST("instance_attr: a name that is not interned is found too") {
  const auto g = run(kInstances);
  const auto name = py::take(PyUnicode_FromStringAndSize("ab", 2));
  const auto fresh = py::take(PyUnicode_Substring(name.get(), 1, 2));  // "b"
  CHECK_EQ(as_long(py::instance_attr(get(g, "inline"), fresh.get())), 20);
}

TEST("instance_attr does not make the __dict__") {
  const auto g = run(kInstances);
  PyObject* object = get(g, "inline");
  CHECK(py::inline_values(object) != nullptr);
  CHECK(py::instance_dict_if_any(object) == nullptr);
  (void)py::instance_attr(object, py::interned("a").get());
  CHECK(py::inline_values(object) != nullptr);
  CHECK_EQ(py::inline_count(object), 2);
  CHECK(py::instance_dict_if_any(get(g, "split")) != nullptr);
  CHECK(py::inline_values(get(g, "split")) == nullptr);
  CHECK_EQ(py::inline_count(get(g, "split")), -1);
  CHECK(py::has_instance_dict(object));
  CHECK(!py::has_instance_dict(get(g, "slots")));
  CHECK(py::has_instance_dict(get(g, "sub")));
}

TEST("inline values come in the order of insertion") {
  const auto g = run("class C: pass\nx = C(); x.one = 1; x.two = 2\ny = C(); y.two = 2; y.one = 1\n");
  std::string order;
  py::each_inline_value(get(g, "y"), [&](PyObject* name, PyObject*) { order += py::text_of(name) + " "; });
  CHECK_EQ(order, "two one ");
  CHECK_EQ(py::shared_key_index(type(g, "C"), py::interned("one").get()), 0);
  CHECK_EQ(py::shared_key_index(type(g, "C"), py::interned("three").get()), -1);
  CHECK_EQ(py::shared_key_count(type(g, "C")), 2);
  CHECK_EQ(py::text_of(py::shared_key_at(type(g, "C"), 1)), "two");
  CHECK_EQ(py::shared_key_index(&PyLong_Type, py::interned("one").get()), -1);
}

TEST("dict access by entry agrees with dict for many sizes") {
  for (const int size : {0, 1, 5, 6, 11, 200, 300, 70000}) {
    auto dict = py::take(PyDict_New());
    for (int i = 0; i < size; ++i) {
      const auto number = py::take(PyLong_FromLong(i));
      py::check(PyDict_SetItem(dict.get(), py::str("key" + std::to_string(i)).get(), number.get()));
    }
    if (size > 5) py::check(PyDict_DelItemString(dict.get(), "key3"));
    int wrong = 0;
    for (int i = 0; i < size; ++i) {
      const auto key = py::str("key" + std::to_string(i));
      PyObject* found = py::dict_get_str(dict.get(), key.get());
      if (found != PyDict_GetItem(dict.get(), key.get())) ++wrong;
    }
    CHECK_EQ(wrong, 0);
    CHECK(py::dict_get_str(dict.get(), py::str("absent").get()) == nullptr);
    CHECK_EQ(py::dict_entry_index(dict.get(), py::str("absent").get()), -1);
  }
}

TEST("dict_get has dict's meaning, without __missing__, and throws errors") {
  const auto g =
      run("class M(dict):\n  def __missing__(self, k): return 5\nm = M(a=1)\n"
          "class Odd:\n  def __hash__(self): raise RuntimeError\nbad = Odd()\nmixed = {1: 2, 'a': 3}\n");
  CHECK_EQ(as_long(py::dict_get(get(g, "m"), py::str("a").get())), 1);
  CHECK(py::dict_get(get(g, "m"), py::str("b").get()) == nullptr);
  CHECK_THROWS(py::PythonError, py::dict_get(get(g, "m"), get(g, "bad")));
  CHECK(!py::has_only_str_keys(get(g, "mixed")));
  CHECK_EQ(py::dict_entry_index(get(g, "mixed"), py::str("a").get()), -1);
}

TEST("versions move with changes") {
  const auto g = run("d = {'a': 1}\nclass B: x = 1\nclass C(B): pass\n");
  const auto before = py::dict_version(get(g, "d"));
  CHECK_EQ(py::dict_version(get(g, "d")), before);
  py::check(PyDict_SetItemString(get(g, "d"), "a", Py_None));
  CHECK(py::dict_version(get(g, "d")) != before);
  const unsigned version = py::assign_type_version(type(g, "C"));
  CHECK(version != 0);
  CHECK_EQ(py::type_version(type(g, "C")), version);
  py::check(PyObject_SetAttrString(get(g, "B"), "x", Py_None));  // a base class
  CHECK_EQ(py::type_version(type(g, "C")), 0U);
  CHECK(py::assign_type_version(type(g, "C")) != version);
  CHECK(py::type_lookup(type(g, "C"), py::interned("x").get()) == Py_None);
}

TEST("Owned counts one reference") {
  PyObject* object = PyList_New(0);
  {
    auto owned = py::Owned<>::steal(object);
    const auto second = owned.copy();
    CHECK_EQ(Py_REFCNT(object), 2);
    auto moved = std::move(owned);
    CHECK_EQ(Py_REFCNT(object), 2);
    moved = py::Owned<>();
    CHECK_EQ(Py_REFCNT(object), 1);
  }
}

TEST("PythonError carries an error through C++ and back") {
  try {
    (void)py::import_attr("math", "no_such_name");
    CHECK(false);
  } catch (py::PythonError& error) {
    CHECK(PyErr_Occurred() == nullptr);
    CHECK(PyErr_GivenExceptionMatches(error.value(), PyExc_AttributeError) != 0);
    error.restore();
    CHECK(PyErr_ExceptionMatches(PyExc_AttributeError) != 0);
    PyErr_Clear();
  }
}

TEST("repr_of is Python's repr, of names and of text that needs escapes") {
  const auto g = run(R"(
texts = ['', 'weight', 'a b', "it's", 'say "so"', '\'"', 'a\\b', 'tab\t', 'line\n', '\x7f', '\x00', '\xe9', '\u4e2d', '\ud800']
class Name(str):
    def __repr__(self): return '<' + self + '>'
texts.append(Name('weight'))
)");
  PyObject* const texts = get(g, "texts");
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(texts); ++i) {
    PyObject* const text = PyList_GET_ITEM(texts, i);
    CHECK_EQ(py::repr_of(text), py::text_of(py::take(PyObject_Repr(text)).get()));
  }
}

TEST("interned gives the one object of a name") {
  const auto g = run("made = ''.join(['a_name_', 'that_is_made'])\nclass Name(str): pass\nname = Name('weight')");
  const auto known = py::interned("a_name_that_is_made");
  CHECK(get(g, "made") != known.get());
  CHECK(py::interned(get(g, "made")).get() == known.get());
  CHECK(py::interned(known.get()).get() == known.get());
  CHECK(py::interned(get(g, "name")).get() == get(g, "name"));
}
