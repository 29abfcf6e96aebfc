#include "region/input_names.h"

#include <unordered_map>
#include <unordered_set>

#include "graph/names.h"
#include "guards/home.h"
#include "py/cpython.h"
#include "region/types.h"

namespace pellucid::region {
namespace {

using guards::Guard;
using guards::Kind;
using source::Source;
using source::Step;

using source::module_of_namespace;

PyObject* home_of(const Capture& capture) {
  return guards::home_globals(capture.function.get()->func_globals, capture.guards.all());
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

bool is_written_as_it_prints(PyObject* key) {
  const Cat cat = cat_of(key);
  if (!PyTuple_CheckExact(key)) return is_atom(cat) && cat != Cat::EnumMember;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i) {
    if (!is_written_as_it_prints(PyTuple_GET_ITEM(key, i))) return false;
  }
  return true;
}

// A dtype and the like as a key.
std::string key_text(const Source* at) {
  const bool is_key = at->step == Step::DictItem && is_written_as_it_prints(at->operand.get());
  return is_key ? py::repr_of(at->operand.get()) : std::string();
}

// "[1][0]": where an object is in a tuple of tuples.
std::string place_in(PyObject* tuple, PyObject* object) {
  if (tuple == nullptr || !PyTuple_CheckExact(tuple)) return {};
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    PyObject* item = PyTuple_GET_ITEM(tuple, i);
    const std::string inner = item == object ? std::string() : place_in(item, object);
    if (item == object || !inner.empty()) return "[" + std::to_string(i) + "]" + inner;
  }
  return {};
}

class Namer {
 public:
  Namer(const Capture& capture, bool evaluable) : capture_(capture), home_(home_of(capture)), evaluable_(evaluable) {}

  std::string text(const Source* source) {
    std::string text = source::print(source, [this](const Source* at) { return part(at); });
    // A module's globals are its attributes.
    for (const std::string& space : namespaces_) {
      const std::string begin = space + "['";
      for (std::size_t at = 0; (at = text.find(begin, at)) != std::string::npos; ++at) {
        const std::size_t key = at + begin.size(), end = text.find("']", key);
        if (end == std::string::npos) break;
        text =
            text.substr(0, at + space.size() - kDict.size()) + '.' + text.substr(key, end - key) + text.substr(end + 2);
      }
    }
    return text;
  }

 private:
  inline static const std::string kDict = ".__dict__";

  std::string part(const Source* at) { return at->step == Step::Const ? path(at->operand.get()) : key_text(at); }

  // How the program came to an object that is known by identity; "": nobody knows.
  std::string path(PyObject* object) {
    if (object == home_) return "G";
    const auto [known, fresh] = paths_.try_emplace(object);  // empty while it is looked for
    if (!fresh) return known->second;
    std::string found = namespace_path(object);
    const auto& guards = capture_.guards.all();
    for (auto guard = guards.begin(); found.empty() && guard != guards.end(); ++guard) found = path_by(*guard, object);
    return paths_[object] = found;
  }

  std::string namespace_path(PyObject* object) {
    const std::string name = module_of_namespace(object);
    if (name.empty()) return {};
    std::string found = path(PyDict_GetItemWithError(PyImport_GetModuleDict(), py::str(name).get()));
    if (found.empty())
      found = evaluable_ ? "__import__('sys').modules['" + name + "']"
                         : "G['__import_" + replaced(name, ".", "_dot_") + "']";
    namespaces_.insert(found + kDict);
    return found + kDict;
  }

  std::string path_by(const Guard& guard, PyObject* object) {
    PyObject* operand = guard.operand.get();
    switch (guard.kind) {
      case Kind::ID_MATCH:
        return operand == object ? below(guard.source, "") : "";
      case Kind::TYPE_MATCH:
        if (operand != object) return {};
        if (const std::string value = below(guard.source, ""); !value.empty()) return "type(" + value + ")";
        return {};
      case Kind::TYPE_LOOKUP:
        return PyTuple_GET_SIZE(operand) == 2 ? attribute_path(guard, object) : "";
      case Kind::FUNCTION:
        return function_path(guard, object);
      default:
        return {};
    }
  }

  // The text of a source, unless one of its roots has none.
  std::string below(const Source* source, const std::string& suffix) {
    const Source* root = source->root();
    if (root->step == Step::Const && path(root->operand.get()).empty()) return {};
    return text(source) + suffix;
  }

  std::string attribute_path(const Guard& guard, PyObject* object) {
    PyObject* found = PyTuple_GET_ITEM(guard.operand.get(), 1);
    const std::string name = "." + py::text_of(PyTuple_GET_ITEM(guard.operand.get(), 0));
    if (found == object) return below(guard.source, name);
    const auto is_its = [&](const char* member) {
      return py::take(PyObject_GetAttrString(found, member)).get() == object;
    };
    if (Py_IS_TYPE(found, &PyProperty_Type)) return is_its("fget") ? below(guard.source, name + ".fget") : "";
    if (Py_IS_TYPE(found, &PyClassMethod_Type))
      return is_its("__func__") ? below(guard.source, name + ".__func__") : "";
    return Py_IS_TYPE(found, &PyStaticMethod_Type) && is_its("__func__") ? below(guard.source, name) : "";
  }

  // Its defaults, the cells of its closure, its globals.
  std::string function_path(const Guard& guard, PyObject* object) {
    const auto in_tuple = [&](PyObject* tuple, const char* member) -> std::string {
      const std::string place = place_in(tuple, object);
      return tuple == object || !place.empty() ? below(guard.source, member + place) : "";
    };
    if (PyTuple_GET_ITEM(guard.operand.get(), 2) == object) return below(guard.source, ".__kwdefaults__");
    std::string found = in_tuple(PyTuple_GET_ITEM(guard.operand.get(), 1), ".__defaults__");
    PyObject* function = guard.source->operand.get();
    if (!found.empty() || guard.source->step != Step::Const || !PyFunction_Check(function)) return found;
    if (PyFunction_GET_GLOBALS(function) == object) return below(guard.source, ".__globals__");
    return in_tuple(PyFunction_GET_CLOSURE(function), ".__closure__");
  }

  const Capture& capture_;
  PyObject* home_;
  bool evaluable_;
  std::unordered_map<PyObject*, std::string> paths_;
  std::unordered_set<std::string> namespaces_;  // texts of modules' dicts
};

bool has_attribute_node(const graph::Graph& graph, const std::string& key) {
  for (const graph::Node* node : graph.nodes()) {
    if (node->op == graph::Op::GetAttr && py::text_of(node->target.get()) == key) return true;
  }
  return false;
}

}  // namespace

InputNames::InputNames()
    : printer_([](const Source* at) { return at->step == Step::Const ? std::string("G") : key_text(at); }) {}

InputName InputNames::name_of(const Capture& capture, const Source* source) {
  const Source* root = source->root();
  if (root->step == Step::Const && root->operand.get() != home_of(capture))
    return {Namer(capture, true).text(source), graph::identifier_of_source(Namer(capture, false).text(source))};
  const std::string& text = printer_.text_of(source);
  return {text, graph::identifier_of_source(text)};
}

std::string attribute_key(const Capture& capture, const std::string& source_text) {
  auto make = py::import_attr("pellucid._fx", "module_key_name");
  const std::string base = py::text_of(py::take(PyObject_CallOneArg(make.get(), py::str(source_text).get())).get());
  PyObject* globals = home_of(capture);
  std::string key = base;
  for (int i = 0; has_attribute_node(capture.graph, key) || PyDict_GetItemString(globals, key.c_str()) != nullptr; ++i)
    key = base + "_" + std::to_string(i);
  return key;
}

}  // namespace pellucid::region
