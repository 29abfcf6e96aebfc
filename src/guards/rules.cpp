#include <Python.h>
#include <structmember.h>

#include <algorithm>
#include <optional>

#include "aten/elements.h"
#include "aten/gradients.h"
#include "aten/memory.h"
#include "base/text.h"
#include "frames/finalizers.h"
#include "frames/generators.h"
#include "guards/check.h"
#include "guards/equality.h"
#include "guards/foresight.h"
#include "py/cpython.h"
#include "py/iterators.h"
#include "py/keys.h"
#include "py/native_lookup.h"
#include "py/numpy_array.h"
#include "py/set_table.h"

namespace pellucid::guards {
namespace {

constexpr std::size_t kLongest = 200;  // of a value in a message

std::string shortened(std::string text) { return pellucid::shortened(std::move(text), kLongest); }

// Never runs a user's __repr__: containers are named by their items' own description.
std::string show(PyObject* value) {
  if (value == nullptr) return "nothing";
  if (Py_TYPE(value) == &PyTuple_Type) {
    std::string text = "(";
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value) && text.size() < kLongest; ++i) {
      text.append(i == 0 ? "" : ", ").append(show(PyTuple_GET_ITEM(value, i)));
    }
    return shortened(text.append(PyTuple_GET_SIZE(value) == 1 ? ",)" : ")"));
  }
  return shortened(source::describe(value));
}

std::string type_name(PyObject* value) {
  return std::string("type ").append(source::describe(reinterpret_cast<PyObject*>(Py_TYPE(value))));
}

std::string keys_text(PyObject* const* keys, std::size_t count) {
  std::string text = "[";
  for (std::size_t i = 0; i < count && text.size() < kLongest; ++i)
    text.append(i == 0 ? "" : ", ").append(show(keys[i]));
  return shortened(std::move(text)).append("] (").append(std::to_string(count)).append(")");
}

std::string keys_of(PyObject* value) {
  if (!PyDict_Check(value)) return type_name(value);
  std::vector<PyObject*> keys;
  Py_ssize_t position = 0;
  void* cursor = nullptr;
  PyObject* key = nullptr;
  const bool ordered = is_ordered_dict_type(Py_TYPE(value));
  while (ordered ? (key = py::ordered_dict_next(value, &cursor)) != nullptr
                 : PyDict_Next(value, &position, &key, nullptr) != 0) {
    keys.push_back(key);
  }
  return std::string("keys ").append(keys_text(keys.data(), keys.size()));
}

std::string elements_text(PyObject* set_or_dict) {
  std::vector<PyObject*> elements;
  Py_ssize_t position = 0;
  PyObject* element = nullptr;
  Py_hash_t hash = 0;
  if (PyDict_Check(set_or_dict)) {
    while (PyDict_Next(set_or_dict, &position, &element, nullptr) != 0) elements.push_back(element);
  } else {
    while (_PySet_NextEntry(set_or_dict, &position, &element, &hash) != 0) elements.push_back(element);
  }
  return std::string("a set of ").append(keys_text(elements.data(), elements.size()));
}

std::string code_text(PyObject* object) {
  const auto* code = reinterpret_cast<PyCodeObject*>(object);
  return std::string("the code of ")
      .append(py::text_of(code->co_qualname))
      .append(" (")
      .append(py::text_of(code->co_filename))
      .append(":")
      .append(std::to_string(code->co_firstlineno))
      .append(")");
}

std::string native(const Check& check, const CodeText& text) {  // what Python cannot say: asked of the program
  return std::string("HOLDS(").append(std::to_string(check.guard)).append(", ").append(text.value).append(")");
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text.append(text.empty() ? "" : ", ").append(part);
  return text;
}

using Names = std::vector<std::string>;  // of the values of a check between several: their sources as Python

template <Kind>
struct Rule;

template <>
struct Rule<Kind::ID_MATCH> {
  static constexpr const char* kSuggestion =
      "each of these objects (True and False too) has compiled code of its own: one that is made for each call is "
      "better made once";
  static bool holds(const Check& c, PyObject* v, PyObject*) noexcept { return v == c.operand; }
  static std::string expected(const Check& c) { return std::string("the object ").append(show(c.operand)); }
  static std::string found(const Check&, PyObject* v, PyObject*) { return show(v); }
  static std::string code(const Check& c, const CodeText& t) { return t.value + " is " + t.constant(c.operand); }
};

template <>
struct Rule<Kind::NOT_ID> {
  static constexpr const char* kSuggestion = "pass this object always or never: the program tells it from all others";
  static bool holds(const Check& c, PyObject* v, PyObject*) noexcept { return v != c.operand; }
  static std::string expected(const Check& c) { return std::string("anything but ").append(show(c.operand)); }
  static std::string found(const Check&, PyObject* v, PyObject*) { return show(v); }
  static std::string code(const Check& c, const CodeText& t) { return t.value + " is not " + t.constant(c.operand); }
};

template <>
struct Rule<Kind::TYPE_MATCH> {
  static constexpr const char* kSuggestion = "pass always the same type: each has compiled code of its own";
  static bool holds(const Check& c, PyObject* v, PyObject*) noexcept {
    return reinterpret_cast<PyObject*>(Py_TYPE(v)) == c.operand;
  }
  static std::string expected(const Check& c) { return std::string("type ").append(source::describe(c.operand)); }
  static std::string found(const Check&, PyObject* v, PyObject*) { return type_name(v); }
  static std::string code(const Check& c, const CodeText& t) {
    return std::string("type(").append(t.value).append(") is ").append(t.constant(c.operand));
  }
};

template <>
struct Rule<Kind::NUMBER_MATCH> {
  static constexpr const char* kSuggestion =
      "pass always ints of 64 bits, or always finite floats: others have compiled code of their own";
  static bool holds(const Check& c, PyObject* v, PyObject*) noexcept {
    symbolic::Value value;
    return reinterpret_cast<PyObject*>(Py_TYPE(v)) == c.operand && is_symbolic_value(v, &value);
  }
  static std::string expected(const Check& c) {
    return reinterpret_cast<PyTypeObject*>(c.operand) == &PyFloat_Type ? "a finite float" : "an int of 64 bits";
  }
  static std::string found(const Check&, PyObject* v, PyObject*) { return show(v).append(" of ").append(type_name(v)); }
  static std::string code(const Check& c, const CodeText& t) {
    if (reinterpret_cast<PyTypeObject*>(c.operand) == &PyFloat_Type)
      return std::string("type(")
          .append(t.value)
          .append(") is float and ")
          .append(t.value)
          .append(" - ")
          .append(t.value)
          .append(" == 0.0");
    return std::string("type(").append(t.value).append(") is int and -2**63 <= ").append(t.value).append(" < 2**63");
  }
};

template <>
struct Rule<Kind::EQUALS_MATCH> {
  static constexpr const char* kSuggestion =
      "a Python value is part of the compiled code: pass it as a tensor if it changes often";
  static bool holds(const Check& c, PyObject* v, PyObject*) noexcept {
    return equal_constants(c.operand, v) || equal_builtin_values(c.operand, v);
  }
  static std::string expected(const Check& c) { return show(c.operand); }
  static std::string found(const Check& c, PyObject* v, PyObject*) {
    return Py_TYPE(v) == Py_TYPE(c.operand) ? show(v) : show(v).append(" of ").append(type_name(v));
  }
  static std::string code(const Check& c, const CodeText& t) {
    PyTypeObject* type = Py_TYPE(c.operand);
    if (c.operand == Py_None || type == &PyBool_Type) return t.value + " is " + show(c.operand);
    if (type != &PyLong_Type && type != &PyUnicode_Type && type != &PyBytes_Type) return native(c, t);
    return std::string("type(")
        .append(t.value)
        .append(") is ")
        .append(type->tp_name)
        .append(" and ")
        .append(t.value)
        .append(" == ")
        .append(py::repr_of(c.operand));
  }
};

template <>
struct Rule<Kind::KEY_MATCH> {
  static constexpr const char* kSuggestion = "a key is part of the compiled code: each one gets its own";
  static bool holds(const Check& c, PyObject* v, PyObject*) noexcept {
    return v == c.operand || (Py_TYPE(v) == Py_TYPE(c.operand) && py::same_key(c.operand, v) == py::Same::Yes);
  }
  static std::string expected(const Check& c) { return std::string("a key equal to ").append(show(c.operand)); }
  static std::string found(const Check&, PyObject* v, PyObject*) { return show(v); }
  static std::string code(const Check& c, const CodeText& t) { return native(c, t); }
};

template <>
struct Rule<Kind::LENGTH> {
  static constexpr const char* kSuggestion =
      "loops over a container are unrolled: keep its length, or stack it into a tensor";
  static bool holds(const Check& c, PyObject* v, PyObject*) noexcept { return source::native_length(v) == c.number; }
  static std::string expected(const Check& c) { return std::string("length ").append(std::to_string(c.number)); }
  static std::string found(const Check&, PyObject* v, PyObject*) {
    const std::int64_t length = source::native_length(v);
    return length < 0 ? type_name(v) : std::string("length ").append(std::to_string(length));
  }
  static std::string code(const Check& c, const CodeText& t) {
    return std::string("len(").append(t.value).append(") == ").append(std::to_string(c.number));
  }
};

template <>
struct Rule<Kind::DICT_KEYS> {
  static constexpr const char* kSuggestion = "keep the keys of the dict and their order";
  static bool holds(const Check& c, PyObject* v, PyObject*) noexcept {
    return equal_keys(v, c.items.data(), static_cast<Py_ssize_t>(c.items.size()));
  }
  static std::string expected(const Check& c) {
    return std::string("keys ").append(keys_text(c.items.data(), c.items.size()));
  }
  static std::string found(const Check&, PyObject* v, PyObject*) { return keys_of(v); }
  static std::string code(const Check& c, const CodeText& t) {
    std::vector<std::string> keys;
    for (PyObject* key : c.items) {
      if (!PyUnicode_CheckExact(key) && !PyLong_CheckExact(key)) return native(c, t);
      keys.push_back(py::repr_of(key));
    }
    return std::string("list(").append(t.value).append(") == [").append(joined(keys)).append("]");
  }
};

template <>
struct Rule<Kind::DICT_CONTAINS> {
  static constexpr const char* kSuggestion = "keep the keys of the dict";
  static bool holds(const Check& c, PyObject* v, PyObject*) noexcept {
    if (!PyDict_Check(v)) return false;
    const py::Entry entry = py::native_dict_find(v, c.operand);
    return entry.known && (entry.value != nullptr) == (c.number != 0);
  }
  static std::string expected(const Check& c) {
    return std::string(c.number != 0 ? "key " : "no key ").append(show(c.operand));
  }
  static std::string found(const Check& c, PyObject* v, PyObject*) {
    if (!PyDict_Check(v)) return type_name(v);
    if (!py::native_dict_find(v, c.operand).known) return "a key that only Python code can compare";
    return std::string(c.number != 0 ? "no key " : "key ").append(show(c.operand));
  }
  static std::string code(const Check& c, const CodeText& t) {
    return t.constant(c.operand).append(c.number != 0 ? " in " : " not in ").append(t.value);
  }
};

template <>
struct Rule<Kind::HAS_ATTR> {
  static constexpr const char* kSuggestion = "set attributes in __init__, not between calls";
  static bool holds(const Check& c, PyObject* v, PyObject*) noexcept {
    return (py::native_instance_attr(v, c.operand) != nullptr) == (c.number != 0);
  }
  static std::string expected(const Check& c) {
    return std::string(c.number != 0 ? "the" : "no").append(" instance attribute ").append(show(c.operand));
  }
  static std::string found(const Check& c, PyObject* v, PyObject*) {
    return c.number != 0 ? "no such attribute" : show(py::native_instance_attr(v, c.operand));
  }
  static std::string code(const Check& c, const CodeText& t) {
    return py::repr_of(c.operand)
        .append(c.number != 0 ? " in getattr(" : " not in getattr(")
        .append(t.value)
        .append(", '__dict__', ())");
  }
};

template <>
struct Rule<Kind::SET_EQUALS> {
  static constexpr const char* kSuggestion = "keep the elements of the set";
  static bool holds(const Check& c, PyObject* v, PyObject*) noexcept { return equal_sets(c.operand, v, c.number == 1); }
  static std::string expected(const Check& c) {
    return elements_text(c.operand).append(c.number == 1 ? " in this order" : "");
  }
  static std::string found(const Check&, PyObject* v, PyObject*) {
    return PyAnySet_Check(v) ? elements_text(v) : type_name(v);
  }
  static std::string code(const Check& c, const CodeText& t) { return native(c, t); }
};

template <>
struct Rule<Kind::SET_TABLE> {
  static constexpr const char* kSuggestion = "take elements out of sets before the first call";
  static std::string_view table(const Check& c) noexcept {
    return {PyBytes_AS_STRING(c.operand), static_cast<std::size_t>(PyBytes_GET_SIZE(c.operand))};
  }
  static bool holds(const Check& c, PyObject* v, PyObject*) noexcept {
    return PyAnySet_Check(v) && py::has_table(v, table(c));
  }
  static std::string expected(const Check& c) { return std::string("a set with the table ").append(table(c)); }
  static std::string found(const Check&, PyObject* v, PyObject*) {
    return PyAnySet_Check(v) ? "the table " + py::table_of(v) : type_name(v);
  }
  static std::string code(const Check& c, const CodeText& t) { return native(c, t); }
};

template <>
struct Rule<Kind::TYPE_LOOKUP> {
  static constexpr const char* kSuggestion = "change classes before the first call";
  static bool holds(const Check& c, PyObject* v, PyObject*) noexcept {
    return PyType_Check(v) && py::type_lookup(reinterpret_cast<PyTypeObject*>(v), c.operand) == c.found;
  }
  static std::string expected(const Check& c) { return show(c.operand).append(" to be ").append(show(c.found)); }
  static std::string found(const Check& c, PyObject* v, PyObject*) {
    return PyType_Check(v) ? show(py::type_lookup(reinterpret_cast<PyTypeObject*>(v), c.operand)) : type_name(v);
  }
  static std::string code(const Check& c, const CodeText& t) {
    const std::string name = py::repr_of(c.operand);
    const std::string test = name + " in b.__dict__";
    if (c.found == nullptr)
      return std::string("not any(").append(test).append(" for b in ").append(t.value).append(".__mro__)");
    return std::string("next((b.__dict__[")
        .append(name)
        .append("] for b in ")
        .append(t.value)
        .append(".__mro__ if ")
        .append(test)
        .append("), None) is ")
        .append(t.constant(c.found));
  }
};

template <>
struct Rule<Kind::FUNCTION> {
  static constexpr const char* kSuggestion =
      "define the function once, outside the code that calls the compiled function";
  static bool same(PyObject* expected, PyObject* found) noexcept {
    return expected == (found == nullptr ? Py_None : found);
  }
  static bool holds(const Check& c, PyObject* v, PyObject*) noexcept { return has_parts(c, v); }
  // The first part that is another one, or how many there are.
  static std::size_t differing(const Check& c, PyObject* v) noexcept {
    std::size_t i = 0;
    while (i < c.items.size() && same(c.items[i], part(v, i))) ++i;
    return i;
  }
  static std::string expected(const Check& c) { return code_text(c.items[0]).append(" with its defaults"); }
  static std::string missed(const Check& c, PyObject* v) {
    const std::size_t at = PyFunction_Check(v) ? differing(c, v) : c.items.size();
    return at == c.items.size() ? expected(c) : words(c.items[at], at);
  }
  static std::string found(const Check& c, PyObject* v, PyObject*) {
    if (!PyFunction_Check(v)) return type_name(v);
    const std::size_t at = differing(c, v);
    return at == c.items.size() ? show(v) : show(v).append(" with ").append(words(part(v, at), at));
  }
  static std::string code(const Check& c, const CodeText& t) {
    std::string text;
    for (std::size_t i = 0; i < c.items.size(); ++i) {
      if (i != 0) text += " and ";
      text.append(t.value).append(".").append(kNames[i]).append(" is ").append(t.constant(c.items[i]));
    }
    return text;
  }

 private:
  static constexpr const char* kNames[] = {"__code__", "__defaults__", "__kwdefaults__", "__globals__", "__builtins__"};
  static PyObject* part(PyObject* function, std::size_t at) noexcept {
    const auto* f = reinterpret_cast<PyFunctionObject*>(function);
    PyObject* const parts[] = {f->func_code, f->func_defaults, f->func_kwdefaults, f->func_globals, f->func_builtins};
    return parts[at];
  }
  static std::string words(PyObject* part, std::size_t at) {
    if (at == 0) return code_text(part);
    return std::string(kNames[at]).append(" ").append(part == nullptr ? "None" : show(part));
  }
};

template <>
struct Rule<Kind::CELL_EMPTY> {
  static constexpr const char* kSuggestion = "assign the closure variable before the call";
  static bool holds(const Check& c, PyObject* v, PyObject*) noexcept {
    return PyCell_Check(v) && (PyCell_GET(v) == nullptr) == (c.number != 0);
  }
  static std::string expected(const Check& c) { return c.number != 0 ? "an empty cell" : "a cell with a value"; }
  static std::string found(const Check&, PyObject* v, PyObject*) {
    if (!PyCell_Check(v)) return type_name(v);
    return PyCell_GET(v) == nullptr ? "an empty cell" : "a cell with a value";
  }
  static std::string code(const Check& c, const CodeText& t) { return native(c, t); }
};

PyObject* in_slot(PyObject* descriptor, PyObject* object) noexcept {
  const auto* slot = reinterpret_cast<PyMemberDescrObject*>(descriptor);
  if (!PyObject_TypeCheck(object, PyDescr_TYPE(slot))) return nullptr;
  return *reinterpret_cast<PyObject* const*>(reinterpret_cast<const char*>(object) + slot->d_member->offset);
}

template <>
struct Rule<Kind::SLOT_EMPTY> {
  static constexpr const char* kSuggestion = "fill the slot in __init__, not between calls";
  static bool holds(const Check& c, PyObject* v, PyObject*) noexcept {
    return PyObject_TypeCheck(v, PyDescr_TYPE(c.operand)) && (in_slot(c.operand, v) == nullptr) == (c.number != 0);
  }
  static std::string expected(const Check& c) { return c.number != 0 ? "an empty slot" : "a filled slot"; }
  static std::string found(const Check& c, PyObject* v, PyObject*) {
    if (!PyObject_TypeCheck(v, PyDescr_TYPE(c.operand))) return type_name(v);
    return c.number != 0 ? "a filled slot" : "an empty slot";
  }
  static std::string code(const Check& c, const CodeText& t) { return native(c, t); }
};

// What the region lets go of at its end only, in one of these places.
template <PyObject* (*dropped)(const Check&, PyObject*) noexcept>
struct QuietRule {
  static constexpr const char* kSuggestion =
      "what is replaced here runs code when it goes: let go of it outside the compiled function";
  static bool holds(const Check& c, PyObject* v, PyObject*) noexcept {
    PyObject* object = dropped(c, v);
    return object == nullptr || !frames::runs_when_dropped(object, frames::Referrers::Counted);
  }
  static std::string expected(const Check&) { return "an object that runs nothing when it goes"; }
  static std::string found(const Check& c, PyObject* v, PyObject*) { return show(dropped(c, v)); }
  static std::string code(const Check& c, const CodeText& t) { return native(c, t); }
};
PyObject* itself(const Check& c, PyObject* v) noexcept { return c.number == 1 && PyCell_Check(v) ? PyCell_GET(v) : v; }
PyObject* whole(const Check&, PyObject* v) noexcept { return v; }
PyObject* attribute(const Check& c, PyObject* v) noexcept { return py::native_instance_attr(v, c.operand); }
PyObject* under_key(const Check& c, PyObject* v) noexcept {
  return PyDict_Check(v) ? py::native_dict_get(v, c.operand) : nullptr;
}
bool is_unknown_key(const Check& c, PyObject* v) noexcept {
  return PyDict_Check(v) && !py::native_dict_find(v, c.operand).known;
}
PyObject* slot_value(const Check& c, PyObject* v) noexcept { return in_slot(c.operand, v); }

template <>
struct Rule<Kind::NO_FINALIZER> : QuietRule<itself> {};
template <>
struct Rule<Kind::NO_FINALIZER_OWNED> : QuietRule<whole> {
  static bool holds(const Check& c, PyObject* v, PyObject*) noexcept {
    return Py_REFCNT(v) > c.number || !frames::runs_when_dropped(v, frames::Referrers::Counted);
  }
};
template <>
struct Rule<Kind::NO_FINALIZER_BUT_GENERATORS> : QuietRule<whole> {
  static bool holds(const Check& c, PyObject* v, PyObject*) noexcept {
    if (Py_REFCNT(v) > c.number) return true;
    std::vector<PyObject*> generators;
    return !frames::runs_when_dropped(v, frames::Referrers::Counted, &generators);
  }
};
template <>
struct Rule<Kind::NO_FINALIZER_ATTR> : QuietRule<attribute> {};
template <>
struct Rule<Kind::NO_FINALIZER_KEY> : QuietRule<under_key> {
  static bool holds(const Check& c, PyObject* v, PyObject* other) noexcept {
    return !is_unknown_key(c, v) && QuietRule<under_key>::holds(c, v, other);
  }
};
template <>
struct Rule<Kind::NO_FINALIZER_SLOT> : QuietRule<slot_value> {};

template <>
struct Rule<Kind::TENSOR_MATCH> {
  static constexpr const char* kSuggestion =
      "the code is compiled for this metadata: keep sizes, dtype, device and requires_grad, or pad to fixed sizes";
  static bool holds(const Check& c, PyObject* v, PyObject*) noexcept { return c.tensor->matches(v); }
  static std::string expected(const Check& c) { return c.tensor->text(); }
  static std::string found(const Check& c, PyObject* v, PyObject*) { return c.tensor->mismatch(v); }
  static std::string code(const Check& c, const CodeText& t) { return native(c, t); }
};

template <>
struct Rule<Kind::ARRAY_MATCH> {
  static constexpr const char* kSuggestion = "the code is compiled for this dtype and these sizes: keep them";
  static bool holds(const Check& c, PyObject* v, PyObject*) noexcept { return py::matches_layout(c.operand, v); }
  static std::string expected(const Check& c) { return std::string("an array ").append(py::text_of_layout(c.operand)); }
  static std::string found(const Check& c, PyObject* v, PyObject*) { return py::text_of_array(c.operand, v); }
  static std::string code(const Check& c, const CodeText& t) { return native(c, t); }
};

template <>
struct Rule<Kind::TENSOR_ELEMENTS> {
  static constexpr const char* kSuggestion =
      "the program goes by the elements of this tensor: keep them, or give it what it reads of them as numbers";
  static bool holds(const Check& c, PyObject* v, PyObject*) noexcept { return aten::has_elements(v, c.operand); }
  static std::string expected(const Check&) { return "the elements of the capture"; }
  static std::string found(const Check&, PyObject* v, PyObject*) {
    return aten::is_tensor(v) ? "other elements" : type_name(v);
  }
  static std::string code(const Check& c, const CodeText& t) { return native(c, t); }
};

template <>
struct Rule<Kind::GRADIENT_TARGET> {
  static constexpr const char* kSuggestion =
      "the code computes this gradient itself: give it a leaf without hooks, or call backward() outside of it";
  static bool holds(const Check& c, PyObject* v, PyObject*) noexcept {
    if (c.number == 2) return aten::takes_gradients_by_hooks(v);
    return c.number == 1 ? aten::takes_gradients_silently(v) : aten::has_no_gradient_hooks(v);
  }
  static std::string expected(const Check& c) {
    if (c.number == 2) return "a leaf that requires gradients, with hooks by register_hook() alone";
    return c.number == 1 ? "a leaf that requires gradients, without hooks" : "a tensor without hooks of gradients";
  }
  static std::string found(const Check&, PyObject* v, PyObject*) {
    if (!aten::is_tensor(v)) return type_name(v);
    return aten::has_no_gradient_hooks(v) ? "a tensor that is no such leaf" : "one with hooks";
  }
  static std::string code(const Check& c, const CodeText& t) { return native(c, t); }
};

template <>
struct Rule<Kind::WHOLE_MEMORY> {
  static constexpr const char* kSuggestion =
      "a copy takes all memory that the tensor has a part in: give it a tensor that is no part of a larger one";
  static bool holds(const Check&, PyObject* v, PyObject*) noexcept {
    return aten::is_tensor(v) && aten::fills_memory(v);
  }
  static std::string expected(const Check&) { return "a tensor that fills its memory"; }
  static std::string found(const Check&, PyObject* v, PyObject*) {
    return aten::is_tensor(v) ? "one that is a part of it" : type_name(v);
  }
  static std::string code(const Check& c, const CodeText& t) { return native(c, t); }
};

template <>
struct Rule<Kind::IS> {
  static constexpr const char* kSuggestion = "pass the same object for both again";
  static bool holds(const Check&, PyObject* v, PyObject* other) noexcept { return v == other; }
  static std::string expected(const Check&) { return "both to be one object"; }
  static std::string found(const Check&, PyObject* v, PyObject* o, const Names& names) {
    return show(v).append(", and ").append(show(o)).append(" as ").append(names[1]);
  }
  static std::string code(const Check&, const CodeText& t) { return t.value + " is " + t.other; }
};

template <>
struct Rule<Kind::IS_NOT> {
  static constexpr const char* kSuggestion = "pass different objects again";
  static bool holds(const Check&, PyObject* v, PyObject* other) noexcept { return v != other; }
  static std::string expected(const Check&) { return "two different objects"; }
  static std::string found(const Check&, PyObject* v, PyObject*, const Names& names) {
    return std::string("one object, which is ").append(names[1]).append(" as well: ").append(show(v));
  }
  static std::string code(const Check&, const CodeText& t) { return t.value + " is not " + t.other; }
};

template <>
struct Rule<Kind::DISTINCT> {
  static constexpr const char* kSuggestion =
      "pass different objects, such as a clone: what is one object has compiled code of its own";
  static bool holds(const Check&, PyObject* v, PyObject*) noexcept {
    std::vector<PyObject*> values(&PyTuple_GET_ITEM(v, 0), &PyTuple_GET_ITEM(v, 0) + PyTuple_GET_SIZE(v));
    std::vector<PyObject*> scratch;
    return all_distinct(values.data(), values.size(), scratch);
  }
  static std::string expected(const Check& c) { return std::to_string(c.number).append(" different objects"); }
  static std::string found(const Check&, PyObject* v, PyObject*, const Names& names) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(v); ++i) {
      for (Py_ssize_t j = 0; j < i; ++j) {
        if (PyTuple_GET_ITEM(v, i) != PyTuple_GET_ITEM(v, j)) continue;
        const auto name = [&](Py_ssize_t at) { return names[static_cast<std::size_t>(at)]; };
        return std::string("one object as ").append(name(j)).append(" and ").append(name(i));
      }
    }
    return "different objects";
  }
  static std::string code(const Check& c, const CodeText& t) {
    return std::string("len({id(v) for v in (")
        .append(joined(t.values))
        .append(",)}) == ")
        .append(std::to_string(c.number));
  }
};

template <>
struct Rule<Kind::CONDITION> {
  static constexpr const char* kSuggestion =
      "the program decides by this number: each outcome has compiled code of its own";
  static bool holds(const Check& c, PyObject* v, PyObject*) noexcept {
    return c.condition->holds([v](std::size_t i, symbolic::Value* out) {
      return is_symbolic_value(PyTuple_GET_ITEM(v, static_cast<Py_ssize_t>(i)), out);
    });
  }
  static std::string expected(const Check& c) { return c.condition->text_of(c.condition->names); }
  static std::string missed(const Check& c, PyObject* v) {
    const auto told = failure(c, v);
    return told ? told->expected : expected(c);
  }
  static std::string found(const Check& c, PyObject* v, PyObject*) {
    const auto told = failure(c, v);
    std::string text;
    const auto add = [&](std::size_t i) {
      text.append(text.empty() ? "" : ", ").append(c.condition->names[i]);
      text.append(" = ").append(show(PyTuple_GET_ITEM(v, static_cast<Py_ssize_t>(i))));
    };
    for (std::size_t i = 0; !told && i < c.condition->names.size(); ++i) add(i);
    if (told) std::ranges::for_each(told->operands, add);
    return text;
  }
  static std::string code(const Check& c, const CodeText& t) { return c.condition->text_of(t.values); }

 private:
  // Nothing: some value is no number that a condition could be about.
  static std::optional<Condition::Failure> failure(const Check& c, PyObject* v) {
    std::vector<symbolic::Value> values(c.condition->symbols.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!is_symbolic_value(PyTuple_GET_ITEM(v, static_cast<Py_ssize_t>(i)), &values[i])) return std::nullopt;
    }
    return c.condition->failure(values);
  }
};

template <>
struct Rule<Kind::FORESEEN> {
  static constexpr const char* kSuggestion =
      "the program decides by the values of this tensor: each outcome has compiled code of its own";
  static bool holds(const Check& c, PyObject* v, PyObject*) noexcept {
    return c.foresight->holds(values(v), number(v));
  }
  static std::string expected(const Check& c) { return c.foresight->expected(); }
  static std::string found(const Check& c, PyObject* v, PyObject*) { return c.foresight->found(values(v), number(v)); }
  static std::string code(const Check& c, const CodeText& t) {
    return std::string("HOLDS(").append(std::to_string(c.guard)).append(", (").append(joined(t.values)).append(",))");
  }

 private:
  static std::span<PyObject* const> values(PyObject* tuple) {
    return {&PyTuple_GET_ITEM(tuple, 0), static_cast<std::size_t>(PyTuple_GET_SIZE(tuple))};
  }
  static Foresight::Number number(PyObject* tuple) {
    return [tuple](std::size_t i, symbolic::Value* out) {
      return is_symbolic_value(PyTuple_GET_ITEM(tuple, static_cast<Py_ssize_t>(i)), out);
    };
  }
};

template <>
struct Rule<Kind::GLOBAL_STATE> {
  static constexpr const char* kSuggestion = "call under one grad mode, autocast state and set of torch flags";
  static bool holds(const Check& c, PyObject*, PyObject*) noexcept { return c.state->matches(); }
  static std::string expected(const Check&) { return "the torch state of the capture"; }
  static std::string found(const Check& c, PyObject*, PyObject*) { return c.state->mismatch(); }
  static std::string code(const Check& c, const CodeText&) {
    return std::string("HOLDS(").append(std::to_string(c.guard)).append(", None)");
  }
};

template <>
struct Rule<Kind::NOT_HANDLING> {
  static constexpr const char* kSuggestion = "call it outside of except blocks";
  static bool holds(const Check&, PyObject*, PyObject*) noexcept { return !handled(); }
  static std::string expected(const Check&) { return "no exception that is being handled"; }
  static std::string found(const Check&, PyObject*, PyObject*) {
    const auto exception = handled();
    return exception ? py::repr_of(exception.get()) : "none";
  }
  static std::string code(const Check&, const CodeText&) { return "__import__('sys').exception() is None"; }

 private:
  static py::Owned<> handled() noexcept { return py::Owned<>::steal(PyErr_GetHandledException()); }
};

template <>
struct Rule<Kind::ABC_TOKEN> {
  static constexpr const char* kSuggestion = "register virtual subclasses before the first call";
  static long long token(const Check& c) noexcept {  // a C function that reads a counter
    PyObject* now = PyObject_CallNoArgs(c.operand);
    const long long value = now == nullptr ? -1 : PyLong_AsLongLong(now);
    Py_XDECREF(now);
    if (PyErr_Occurred() != nullptr) PyErr_Clear();
    return value;
  }
  static bool holds(const Check& c, PyObject*, PyObject*) noexcept { return token(c) == c.number; }
  static std::string expected(const Check& c) { return std::to_string(c.number); }
  static std::string found(const Check& c, PyObject*, PyObject*) { return std::to_string(token(c)); }
  static std::string code(const Check& c, const CodeText&) {
    return std::string("__import__('abc').get_cache_token() == ").append(std::to_string(c.number));
  }
};

// What a rule about an iterator's state has in common: a number that is read, and one that was found at capture.
struct IteratorRule {
  static constexpr const char* kSuggestion = "an iterator from outside is compiled for where it stands: make it inside";
  static std::string code(const Check& c, const CodeText& t) { return native(c, t); }
  static std::string ahead(PyObject* v, std::int64_t left) {
    if (left < 0) return type_name(v).append(" whose elements cannot be counted");
    return std::to_string(left).append(" elements ahead");
  }
};

template <>
struct Rule<Kind::ITERATOR_HAS> : IteratorRule {
  static bool holds(const Check& c, PyObject* v, PyObject*) noexcept {
    return py::iterator_left(v, c.number) == c.number;
  }
  static std::string expected(const Check& c) { return "at least " + std::to_string(c.number) + " elements ahead"; }
  static std::string found(const Check& c, PyObject* v, PyObject*) { return ahead(v, py::iterator_left(v, c.number)); }
};

template <>
struct Rule<Kind::ITERATOR_LEFT> : IteratorRule {
  static bool holds(const Check& c, PyObject* v, PyObject*) noexcept {
    return py::iterator_left(v, c.number + 1) == c.number;
  }
  static std::string expected(const Check& c) { return std::to_string(c.number) + " elements ahead"; }
  static std::string found(const Check& c, PyObject* v, PyObject*) {
    const std::int64_t left = py::iterator_left(v, c.number + 1);
    return left > c.number ? "more elements ahead" : ahead(v, left);
  }
};

template <>
struct Rule<Kind::ITERATOR_AT> : IteratorRule {
  static bool holds(const Check& c, PyObject* v, PyObject*) noexcept { return py::iterator_position(v) == c.number; }
  static std::string words(std::int64_t position) {
    return position < 0 ? "an iterator that has come to its end" : "an iterator at index " + std::to_string(position);
  }
  static std::string expected(const Check& c) { return words(c.number); }
  static std::string found(const Check&, PyObject* v, PyObject*) { return words(py::iterator_position(v)); }
};

template <>
struct Rule<Kind::ITERATOR_SHAPE> : IteratorRule {
  static bool holds(const Check& c, PyObject* v, PyObject*) noexcept { return py::iterator_shape(v) == c.number; }
  static std::string words(std::int64_t shape) {
    if (shape < 0) return "a strict zip of " + std::to_string(-shape - 1) + " parts";
    return "an iterator of " + std::to_string(shape) + " parts";
  }
  static std::string expected(const Check& c) { return words(c.number); }
  static std::string found(const Check&, PyObject* v, PyObject*) {
    return words(py::iterator_shape(v)).append(", ").append(type_name(v));
  }
};

template <>
struct Rule<Kind::GENERATOR_AT> : IteratorRule {
  static bool holds(const Check& c, PyObject* v, PyObject*) noexcept { return frames::stands_at(v, c.operand); }
  static std::string words(PyObject* place) {
    if (place == Py_None) return "a generator that has ended";
    return "a generator suspended in " + frames::describe_place(place);
  }
  static std::string expected(const Check& c) { return words(c.operand); }
  static std::string found(const Check&, PyObject* v, PyObject*) {
    if (!frames::is_readable_generator(v)) return "one that runs, handles an exception or shows its frame";
    return words(frames::place_of_generator(v).get());
  }
};

template <class R>
std::string found(const Check& check, PyObject* value, PyObject* other, const Names& names) {
  if constexpr (requires { R::found(check, value, other, names); })
    return R::found(check, value, other, names);
  else
    return R::found(check, value, other);
}

// What was expected of this value: less than of any other where the rule can tell what of it failed.
template <class R>
std::string missed(const Check& check, PyObject* value) {
  if constexpr (requires { R::missed(check, value); }) return R::missed(check, value);
  return R::expected(check);
}

struct Row {
  bool (*holds)(const Check&, PyObject*, PyObject*) noexcept;
  std::string (*expected)(const Check&);
  std::string (*missed)(const Check&, PyObject*);
  std::string (*found)(const Check&, PyObject*, PyObject*, const Names&);
  std::string (*code)(const Check&, const CodeText&);
  const char* suggestion;
};

constexpr Row kRows[] = {
// a kind without a complete Rule does not compile
#define GUARD(kind, ...)                                                             \
  {&Rule<Kind::kind>::holds, &Rule<Kind::kind>::expected, &missed<Rule<Kind::kind>>, \
   &found<Rule<Kind::kind>>, &Rule<Kind::kind>::code,     Rule<Kind::kind>::kSuggestion},
#include "guards/guards.def"
};

const Row& row(const Check& check) noexcept { return kRows[static_cast<std::size_t>(check.kind)]; }

}  // namespace

bool holds(const Check& check, PyObject* value, PyObject* other) noexcept {
  return row(check).holds(check, value, other);
}
std::string expected_text(const Check& check) { return row(check).expected(check); }
std::string missed_text(const Check& check, PyObject* value) { return row(check).missed(check, value); }
std::string found_text(const Check& check, PyObject* value, PyObject* other, const std::vector<std::string>& names) {
  return row(check).found(check, value, other, names);
}
std::string code_text(const Check& check, const CodeText& text) { return row(check).code(check, text); }
std::string suggestion(const Check& check) { return row(check).suggestion; }

bool all_distinct(PyObject* const* values, std::size_t count, std::vector<PyObject*>& table) noexcept {
  std::size_t size = 8;
  while (size < 2 * count) size *= 2;
  table.assign(size, nullptr);  // keeps its capacity: no allocation after the first time
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t slot = (reinterpret_cast<std::size_t>(values[i]) >> 4) * 0x9E3779B97F4A7C15ull >> 20 & (size - 1);
    for (; table[slot] != nullptr; slot = (slot + 1) & (size - 1)) {
      if (table[slot] == values[i]) return false;
    }
    table[slot] = values[i];
  }
  return true;
}

}  // namespace pellucid::guards
