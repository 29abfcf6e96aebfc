#include "runtime/kept_region.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "aten/world.h"
#include "codegen/emit.h"
#include "guards/traits.h"
#include "py/cpython.h"
#include "region/torch_module.h"
#include "region/types.h"

namespace pellucid::runtime {
namespace {

using codegen::Expr;
using codegen::Stmt;
using graph::Arg;
using graph::Node;
using graph::Op;
using guards::Guard;
using guards::Kind;
using source::Source;
using source::Step;

constexpr std::size_t kSteps = 0
#define SOURCE(kind, ...) +1
#include "source/sources.def"
    ;
constexpr int kDeepest = 100;  // nesting of arguments and expressions

// ---- what graphs and plans may call

// Where torch has the C functions that are operators on tensors, and what switches its modes.
bool is_of_torch(PyObject* function) {
  const auto* const f = reinterpret_cast<PyCFunctionObject*>(function);
  const std::string_view name = f->m_ml->ml_name;
  const std::string module = f->m_module == nullptr ? "" : py::text_of(f->m_module);
  static constexpr std::string_view kModules[] = {"torch._C._nn", "torch._C._special", "torch._C._linalg",
                                                  "torch._C._fft"};
  static constexpr std::string_view kSwitches[] = {"_set_grad_enabled"};
  static constexpr std::string_view kFiles[] = {"from_file"};  // the one that touches files
  const auto is_in = [](std::string_view text, const auto& all) {
    return std::ranges::find(all, text) != std::end(all);
  };
  if (is_in(module, kModules)) return true;
  if (module == "torch") return !is_in(name, kFiles);
  static PyObject* const core = py::import_attr("sys", "modules").release();
  const auto at = py::str("torch._C");
  PyObject* const found = PyDict_GetItemWithError(core, at.get());
  PyObject* const there = found != nullptr && PyModule_Check(found)
                              ? PyDict_GetItemString(PyModule_GetDict(found), f->m_ml->ml_name)
                              : nullptr;
  return there == function && is_in(name, kSwitches);
}

// Operators as torch's functions and methods, and Python's own.
bool is_operator(PyObject* callee) {
  if (PyCFunction_Check(callee)) {
    if (is_of_torch(callee)) return true;
    PyObject* const module = reinterpret_cast<PyCFunctionObject*>(callee)->m_module;
    const std::string name = module == nullptr ? "" : py::text_of(module);
    return name == "_operator" || name == "math";
  }
  if (PyFunction_Check(callee)) {
    static constexpr const char* kModules[] = {"torch.nn.functional", "torch.functional", "torch._tensor"};
    const std::string name = py::text_of(reinterpret_cast<PyFunctionObject*>(callee)->func_module);
    if (std::ranges::find(kModules, name) == std::end(kModules)) return false;
    // What calls itself so is what torch has written.
    PyObject* const space = reinterpret_cast<PyFunctionObject*>(callee)->func_globals;
    return source::module_of_namespace(space) == name;
  }
  if (Py_IS_TYPE(callee, &PyMethodDescr_Type) || Py_IS_TYPE(callee, &PyWrapperDescr_Type))
    return std::string_view(PyDescr_TYPE(callee)->tp_name).starts_with("torch.");
  return false;
}

// The containers whose own methods plans call.
bool is_container(PyTypeObject* type) {
  static PyTypeObject* const deque = reinterpret_cast<PyTypeObject*>(py::import_attr("collections", "deque").release());
  const PyTypeObject* const all[] = {&PyList_Type,      &PyDict_Type,      &PySet_Type,  &PyTuple_Type, &PyFrozenSet_Type,
                                     &PyByteArray_Type, &PyODict_Type, &PyCell_Type, deque};
  return std::ranges::find(all, type) != std::end(all);
}

// How containers, and objects without code of their own, are made and filled.
bool is_builder(PyObject* callee) {
  const auto is_of_object = [](std::string_view name) {
    return name == "__new__" || name == "__setattr__" || name == "__delattr__";
  };
  if (PyType_Check(callee)) return is_container(reinterpret_cast<PyTypeObject*>(callee));
  if (PyCFunction_Check(callee)) {
    PyObject* const self = PyCFunction_GET_SELF(callee);
    if (self == nullptr || !PyType_Check(self)) return false;
    const bool is_object = self == reinterpret_cast<PyObject*>(&PyBaseObject_Type);
    return (is_object && is_of_object(reinterpret_cast<PyCFunctionObject*>(callee)->m_ml->ml_name)) ||
           is_container(reinterpret_cast<PyTypeObject*>(self));
  }
  if (Py_IS_TYPE(callee, &PyMethodDescr_Type) || Py_IS_TYPE(callee, &PyWrapperDescr_Type)) {
    const bool is_object = PyDescr_TYPE(callee) == &PyBaseObject_Type;
    return (is_object && is_of_object(py::text_of(PyDescr_NAME(callee)))) || is_container(PyDescr_TYPE(callee));
  }
  return false;
}

// What a plan may change: what it makes, and what the arguments and free variables lead to.
bool may_change(const Expr& target) {
  if (target.kind == Expr::Kind::Fresh) return true;
  return target.kind == Expr::Kind::Source && target.source->root()->step != Step::Const;
}
bool changes_only_its_own(const Stmt& stmt) {
  if (stmt.kind != Stmt::Kind::Evaluate) return may_change(stmt.target);
  return stmt.value.kind == Expr::Kind::Call && !stmt.value.items.empty() && may_change(stmt.value.items.front());
}

// getattr(tensor, "T"): an attribute that C code computes.
bool is_read_of_tensor(const Node& node) {
  static PyObject* const read = py::import_attr("builtins", "getattr").release();
  static PyObject* const tensor = py::import_attr("torch", "Tensor").release();
  if (node.target.get() != read || node.args.size() != 2 || !node.kwargs.empty()) return false;
  PyObject* const name = node.args[1].constant.get();
  if (node.args[0].kind != Arg::Kind::Node || node.args[1].kind != Arg::Kind::Constant || !PyUnicode_CheckExact(name))
    return false;
  PyObject* const found = py::type_lookup(reinterpret_cast<PyTypeObject*>(tensor), py::interned(name).get());
  return found != nullptr && Py_IS_TYPE(found, &PyGetSetDescr_Type);
}

// A name that a tensor's own class defines in C, or torch.Tensor does.
bool is_method_of_tensor(PyObject* name) {
  static PyObject* const tensor = py::import_attr("torch", "Tensor").release();
  return PyUnicode_CheckExact(name) &&
         py::type_lookup(reinterpret_cast<PyTypeObject*>(tensor), py::interned(name).get()) != nullptr;
}

// ---- abstract base classes

bool is_abstract(PyObject* object) {
  static PyObject* const meta = py::import_attr("abc", "ABCMeta").release();
  return PyType_Check(object) && PyType_IsSubtype(Py_TYPE(object), reinterpret_cast<PyTypeObject*>(meta)) != 0;
}

// What is registered with a class and with those below it: with this and the bases of a class it is known what is an
// instance of what.
std::string registered_with(PyObject* type) {
  static PyObject* const ask = py::import_attr("pellucid._capture_cache", "_registered_with").release();
  return py::text_of(py::take(PyObject_CallOneArg(ask, type)).get());
}

// Says that the classes of this process which could be asked are registered as they are now.
std::int64_t token_now() {
  static PyObject* const token = py::import_attr("abc", "get_cache_token").release();
  const auto value = py::take(PyObject_CallNoArgs(token));
  const std::int64_t number = PyLong_AsLongLong(value.get());
  if (number == -1 && PyErr_Occurred() != nullptr) py::throw_pending();
  return number;
}

// ---- which guards there are, and in what form

enum class Form : std::uint8_t {
  Plain,    // number, other
  Object,   // the operand is an object of the table
  Lookup,   // TYPE_LOOKUP
  Function,
  Tensor,
  State,
  Sources,  // DISTINCT
  Refused,
};

Form form_of(Kind kind) {
  switch (kind) {
    case Kind::ID_MATCH:
    case Kind::NOT_ID:
    case Kind::TYPE_MATCH:
    case Kind::EQUALS_MATCH:
    case Kind::KEY_MATCH:
    case Kind::DICT_KEYS:
    case Kind::DICT_CONTAINS:
    case Kind::HAS_ATTR:
    case Kind::SET_EQUALS:
    case Kind::SLOT_EMPTY:
    case Kind::NO_FINALIZER_ATTR:
    case Kind::NO_FINALIZER_KEY:
    case Kind::NO_FINALIZER_SLOT:
      return Form::Object;
    case Kind::LENGTH:
    case Kind::CELL_EMPTY:
    case Kind::NO_FINALIZER:
    case Kind::NO_FINALIZER_OWNED:
    case Kind::NO_FINALIZER_BUT_GENERATORS:
    case Kind::GRADIENT_TARGET:
    case Kind::IS:
    case Kind::IS_NOT:
    case Kind::NOT_HANDLING:
    case Kind::ABC_TOKEN:
    case Kind::ITERATOR_HAS:
    case Kind::ITERATOR_LEFT:
    case Kind::ITERATOR_AT:
    case Kind::ITERATOR_SHAPE:
      return Form::Plain;
    case Kind::TYPE_LOOKUP:
      return Form::Lookup;
    case Kind::FUNCTION:
      return Form::Function;
    case Kind::TENSOR_MATCH:
      return Form::Tensor;
    case Kind::GLOBAL_STATE:
      return Form::State;
    case Kind::DISTINCT:
      return Form::Sources;
    default:
      return Form::Refused;
  }
}

bool has_operand_of_its_kind(const Guard& guard) {
  PyObject* const operand = guard.operand.get();
  switch (guard.kind) {
    case Kind::TYPE_MATCH:
      return PyType_Check(operand);
    case Kind::DICT_KEYS:
      return PyTuple_CheckExact(operand);
    case Kind::HAS_ATTR:
    case Kind::NO_FINALIZER_ATTR:
      return PyUnicode_CheckExact(operand);
    case Kind::SET_EQUALS:
      return PyTuple_CheckExact(operand) || PyFrozenSet_CheckExact(operand);
    case Kind::SLOT_EMPTY:
    case Kind::NO_FINALIZER_SLOT:
      return Py_IS_TYPE(operand, &PyMemberDescr_Type);
    default:
      return true;
  }
}

// ---- writing

class Keeper {
 public:
  Keeper(const region::Capture& capture, PyObject* const* locals)
      : capture_(capture),
        locals_(locals),
        objects_(capture.function.get()),
        plan_(codegen::make_plan(capture)),
        undo_(undo_plan(capture, true)) {
    const auto& placeholders = capture.graph.placeholders();
    for (const Node* node : placeholders) nodes_.emplace(node, nodes_.size());
    for (const Node* node : capture.graph.nodes()) nodes_.emplace(node, nodes_.size());
  }

  std::string bytes() {
    refuse_what_is_not_written();
    ByteWriter noted;
    write_all(noted);
    objects_.solve();
    for (const Source* source : objects_.sources()) note(source);
    for (const auto& [id, source] : by_id_) source_ids_.emplace(source, source_ids_.size());
    ByteWriter out;
    objects_.write(out, [&](const Source* source) { return static_cast<std::uint32_t>(source_ids_.at(source)); });
    write_sources(out);
    write_all(out);
    return out.take();
  }

 private:
  void refuse_what_is_not_written() const {
    if (capture_.follows_modes) throw Unkept{"torch function modes are open"};
    if (capture_.after) throw Unkept{"it leaves the state of torch changed"};
    if (capture_.exit) throw Unkept{"it ends before the program does"};
    if (!capture_.open.is_empty()) throw Unkept{"numbers are open"};
    if (capture_.has_unbacked || capture_.has_value_checks) throw Unkept{"it depends on values of tensors"};
    if (!capture_.bodies->empty()) throw Unkept{"its graph has graphs in it"};
    if (!undo_.attributes.empty()) throw Unkept{"its graph writes into a tensor of its own"};
  }

  void write_all(ByteWriter& out) {
    out.text(aten::state_text());
    write_registrations(out);
    write_guards(out);
    write_graph(out);
    write_plan(out);
    write_rest(out);
  }

  // ---- sources
  void note(const Source* source) {
    for (const Source* s = source; s != nullptr && by_id_.emplace(s->id, s).second; s = s->base) {
      if (s->step == Step::FunctionMode) throw Unkept{"it asks torch function modes"};
      if (s->step == Step::Const || s->step == Step::DictItem) (void)objects_.id(s->operand.get());
    }
  }
  std::uint64_t id(const Source* source) {
    if (source == nullptr) return 0;
    if (source_ids_.empty()) {
      note(source);
      return 0;
    }
    return source_ids_.at(source) + 1;
  }
  void write_sources(ByteWriter& out) {
    out.number(by_id_.size());
    for (const auto& [number, source] : by_id_) {
      out.number(static_cast<std::uint64_t>(source->step));
      out.number(source->base == nullptr ? 0 : source_ids_.at(source->base) + 1);
      out.signed_number(source->index);
      const bool is_object = source->step == Step::Const || source->step == Step::DictItem;
      if (is_object) {
        out.number(objects_.id(source->operand.get()));
      } else {
        out.text(py::text_of(source->operand.get()));
      }
    }
  }

  py::Owned<> value_at(const Source* source) const {
    return source::evaluate(source, locals_, capture_.function->func_closure);
  }

  // Any class that the capture has met may have been asked.
  void write_registrations(ByteWriter& out) {
    const auto is_token = [](const Guard& guard) { return guard.kind == Kind::ABC_TOKEN; };
    std::vector<PyObject*> asked;
    if (std::ranges::any_of(capture_.guards.all(), is_token)) {
      for (const auto& [object, source] : capture_.source_of) {
        if (is_abstract(object)) asked.push_back(object);
      }
    }
    out.number(asked.size());
    for (PyObject* type : asked) {
      out.number(objects_.id(type));
      out.text(registered_with(type));
    }
  }

  // ---- guards
  void write_guards(ByteWriter& out) {
    std::vector<const Guard*> all;
    for (const Guard& guard : capture_.guards.all()) {
      if (!is_about_ours(guard)) all.push_back(&guard);
    }
    out.number(all.size());
    for (const Guard* guard : all) write(out, *guard);
  }
  // Classes of the core, which no program changes: that it is the same core is part of the key.
  static bool is_about_ours(const Guard& guard) {
    if (guard.source == nullptr || guard.source->root()->step != Step::Const) return false;
    PyObject* const type = guard.source->root()->operand.get();
    if (!PyType_Check(type)) return false;
    PyObject* const dict = reinterpret_cast<PyTypeObject*>(type)->tp_dict;
    return py::text_of(PyDict_GetItemString(dict, "__module__")) == "pellucid._core";
  }
  void write(ByteWriter& out, const Guard& guard) {
    const Form form = form_of(guard.kind);
    if (form == Form::Refused) throw Unkept{"it has a guard of the kind " + std::string(name_of(guard.kind))};
    out.number(static_cast<std::uint64_t>(guard.kind));
    out.number(id(guard.source));
    out.number(id(guard.other));
    out.signed_number(guard.number);
    out.text(guard.why.operation);
    switch (form) {
      case Form::Object:
        note_place(guard);
        return out.number(objects_.id(guard.operand.get()));
      case Form::Lookup: {
        if (guard.source == nullptr || guard.source->step != Step::Const) throw Unkept{"a class has no name"};
        PyObject* const name = PyTuple_GET_ITEM(guard.operand.get(), 0);
        const bool is_found = PyTuple_GET_SIZE(guard.operand.get()) > 1;
        PyObject* const found = is_found ? PyTuple_GET_ITEM(guard.operand.get(), 1) : nullptr;
        if (is_found) objects_.note_lookup(guard.source->operand.get(), name, found);
        out.number(objects_.id(name));
        return out.number(is_found ? objects_.id(found) + 1 : 0);
      }
      case Form::Function:
        return write_function(out, guard);
      case Form::Tensor:
        return write_tensor(out, guard);
      case Form::State:
        if (guard.state && !guard.state->matches()) throw Unkept{"the state of torch is another one than at its start"};
        if (aten::state_text().empty()) throw Unkept{"modes, hooks or transforms of torch are open"};
        return;
      case Form::Sources: {
        const auto count = PyTuple_GET_SIZE(guard.operand.get());
        out.number(static_cast<std::uint64_t>(count));
        for (Py_ssize_t i = 0; i < count; ++i) {
          const auto number = static_cast<std::size_t>(PyLong_AsLong(PyTuple_GET_ITEM(guard.operand.get(), i)));
          out.number(id(capture_.sources.at(number)));
        }
        return;
      }
      default:
        return;
    }
  }
  void note_place(const Guard& guard) {
    const bool is_place = guard.kind == Kind::ID_MATCH && guard.source != nullptr && guard.source->step != Step::Const;
    if (is_place) objects_.note_source(guard.operand.get(), guard.source);
  }
  void write_function(ByteWriter& out, const Guard& guard) {
    auto function = value_at(guard.source);
    if (!function || !PyFunction_Check(function.get())) throw Unkept{"a function is not there any more"};
    if (guard.source->step != Step::Const) objects_.note_source(function.get(), guard.source);
    out.number(objects_.id(function.get()));
    PyObject* const operand = guard.operand.get();
    out.number(static_cast<std::uint64_t>(PyTuple_GET_SIZE(operand)));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(operand); ++i) out.number(objects_.id(PyTuple_GET_ITEM(operand, i)));
    held_.push_back(std::move(function));
  }
  void write_tensor(ByteWriter& out, const Guard& guard) {
    const auto tensor = value_at(guard.source);
    if (!tensor || !aten::is_tensor(tensor.get()) || guard.tensor->has_open() || !guard.tensor->matches(tensor.get()))
      throw Unkept{"a tensor has open sizes, or is not as it was"};
    const std::string layout = aten::layout_text(tensor.get());
    if (layout.empty()) throw Unkept{"a tensor has no plain layout"};
    out.number(objects_.id(reinterpret_cast<PyObject*>(Py_TYPE(tensor.get()))));
    out.text(layout);
  }

  // ---- the graph
  void write_graph(ByteWriter& out) {
    const graph::Graph& graph = capture_.graph;
    out.number(graph.placeholders().size());
    for (const Node* node : graph.placeholders()) {
      out.number(id(capture_.sources.at(static_cast<std::size_t>(node->source_id))));
      out.text(node->name);
      out.text(node->source_text);
    }
    out.number(graph.nodes().size());
    for (const Node* node : graph.nodes()) write(out, *node);
    write_nodes(out, graph.outputs());
  }
  void write_nodes(ByteWriter& out, const std::vector<Node*>& nodes) {
    out.number(nodes.size());
    for (const Node* node : nodes) out.number(nodes_.at(node));
  }
  void write(ByteWriter& out, const Node& node) {
    const bool is_method = node.op == Op::CallMethod;
    if (node.op == Op::GetAttr || node.body != nullptr || node.plain)
      throw Unkept{"its graph has a tensor or a graph of its own"};
    if (!is_method && !is_operator(node.target.get()) && !is_read_of_tensor(node))
      throw Unkept{"its graph calls " + source::describe(node.target.get()) + ", which is no operator of torch"};
    if (is_method && !is_method_of_tensor(node.target.get())) throw Unkept{"its graph calls a method of another class"};
    out.flag(is_method);
    out.number(objects_.id(node.target.get()));
    out.text(node.name);
    out.flag(node.may_raise);
    out.number(node.args.size());
    for (const Arg& arg : node.args) write(out, arg);
    out.number(node.kwargs.size());
    for (const auto& [name, arg] : node.kwargs) {
      out.number(objects_.id(name.get()));
      write(out, arg);
    }
  }
  void write(ByteWriter& out, const Arg& arg) {
    out.number(static_cast<std::uint64_t>(arg.kind));
    switch (arg.kind) {
      case Arg::Kind::Node:
        return out.number(nodes_.at(arg.node));
      case Arg::Kind::Constant:
        return out.number(objects_.id(arg.constant.get()));
      case Arg::Kind::Tuple: {
        const bool is_plain = !arg.constant || arg.constant.get() == reinterpret_cast<PyObject*>(&PyTuple_Type);
        if (!is_plain && arg.constant.get() != reinterpret_cast<PyObject*>(region::torch_size_type()))
          throw Unkept{"its graph takes a tuple of a class of its own"};
        out.flag(!is_plain);
        break;
      }
      default:
        break;
    }
    out.number(arg.items.size());
    for (const Arg& item : arg.items) write(out, item);
    if (arg.kind != Arg::Kind::Dict) return;
    for (const auto& key : arg.keys) out.number(objects_.id(key.get()));
  }

  // ---- the plan
  void write_plan(ByteWriter& out) {
    out.number(plan_.fresh.size());
    for (const codegen::Fresh& fresh : plan_.fresh) {
      write(out, fresh.make);
      write(out, fresh.fill);
      out.number(static_cast<std::uint64_t>(fresh.uses));
      out.flag(fresh.named);
    }
    out.number(plan_.order.size());
    for (const int index : plan_.order) out.number(static_cast<std::uint64_t>(index));
    write(out, plan_.effects);
    write(out, plan_.result);
    write_nodes(out, plan_.outputs);
  }
  void write(ByteWriter& out, const std::vector<Stmt>& stmts) {
    out.number(stmts.size());
    for (const Stmt& stmt : stmts) {
      if (!changes_only_its_own(stmt)) throw Unkept{"it changes what globals lead to, or calls something at its end"};
      out.number(static_cast<std::uint64_t>(stmt.kind));
      write(out, stmt.target);
      write(out, stmt.key);
      write(out, stmt.value);
      out.number(stmt.name ? objects_.id(stmt.name.get()) + 1 : 0);
    }
  }
  void write(ByteWriter& out, const Expr& expr) {
    out.number(static_cast<std::uint64_t>(expr.kind));
    switch (expr.kind) {
      case Expr::Kind::Constant:
        out.flag(static_cast<bool>(expr.object));
        if (expr.object) out.number(objects_.id(expr.object.get()));
        return;
      case Expr::Kind::Source:
        return out.number(id(expr.source));
      case Expr::Kind::Output:
        return out.number(nodes_.at(expr.node));
      case Expr::Kind::Fresh:
        return out.number(static_cast<std::uint64_t>(expr.index));
      case Expr::Kind::CallKw:
        throw Unkept{"it calls what the program calls, behind the graph"};
      case Expr::Kind::Call:
        if (!is_builder(expr.object.get()))
          throw Unkept{"it calls " + source::describe(expr.object.get()) + " behind the graph"};
        out.number(objects_.id(expr.object.get()));
        break;
      default:
        break;
    }
    out.number(expr.items.size());
    for (const Expr& item : expr.items) write(out, item);
  }

  void write_rest(ByteWriter& out) {
    out.flag(undo_.may_raise);
    out.flag(undo_.generators);
    out.flag(undo_.cuda);
    out.number(undo_.inputs.size());
    for (const UndoPlan::Input& input : undo_.inputs) {
      out.number(input.position);
      out.number(static_cast<std::uint64_t>(input.keep));
    }
    out.number(static_cast<std::uint64_t>(capture_.depth));
    write_numbers(out);
  }

  // The numbers that were read, by the sources that lead to them: the hash of a path is of this process.
  void write_numbers(ByteWriter& out) {
    std::map<region::PathHash, std::pair<const Source*, std::int64_t>> places;
    for (const Guard& guard : capture_.guards.all()) {
      if (guard.source == nullptr) continue;
      if (guard.kind == Kind::EQUALS_MATCH) places.emplace(region::hash_of(guard.source), std::pair(guard.source, -1));
      for (std::int64_t dim = 0, size = 0; guard.kind == Kind::TENSOR_MATCH && guard.tensor->size_at(dim, &size); ++dim)
        places.emplace(region::hash_below(region::hash_of(guard.source), Step::Size, dim, nullptr),
                       std::pair(guard.source, dim));
    }
    std::vector<std::pair<std::pair<const Source*, std::int64_t>, region::SeenNumber>> known;
    for (const auto& [path, seen] : capture_.numbers) {
      if (const auto found = places.find(path); found != places.end()) known.emplace_back(found->second, seen);
    }
    out.number(known.size());
    for (const auto& [place, seen] : known) {
      out.number(id(place.first));
      out.signed_number(place.second);
      out.number(seen.bits);
      out.flag(seen.is_float);
      out.flag(seen.pinned);
    }
  }

  const region::Capture& capture_;
  PyObject* const* locals_;
  ObjectWriter objects_;
  codegen::Plan plan_;
  UndoPlan undo_;
  std::map<const Node*, std::size_t> nodes_;
  std::map<int, const Source*> by_id_;
  std::map<const Source*, std::uint64_t> source_ids_;
  std::vector<py::Owned<>> held_;
};

// ---- reading

class Reader final : public SourceValues {
 public:
  Reader(std::string_view bytes, PyFunctionObject* function, PyObject* const* locals)
      : in_(bytes), function_(function), locals_(locals), objects_(in_, function) {
    objects_.use(*this);
    capture().function = py::Owned<PyFunctionObject>::share(function);
    capture().code = py::Owned<PyCodeObject>::share(code());
  }

  std::unique_ptr<KeptRegion> region() {
    read_sources();
    if (in_.text() != aten::state_text()) throw Miss{"the state of torch is another one"};
    objects_.check_all();
    read_registrations();
    read_guards();
    read_graph();
    read_plan();
    read_rest();
    if (!in_.at_end()) throw Miss{"there is more than a capture"};
    know_values();
    return std::move(region_);
  }

  PyObject* value_of(std::size_t number) override {
    if (number >= values_.size()) throw Miss{"a source is not there"};
    Value& value = values_[number];
    if (value.known) return value.object.get();
    if (value.open) throw Miss{"its sources lead in a circle"};
    value.open = true;
    const Source& source = *value.row;
    PyObject* base = nullptr;
    if (value.base != 0) {
      base = value_of(value.base - 1);
      if (base == nullptr) throw Miss{"a value is not there"};
    }
    value.object = source.step == Step::Const
                       ? py::Owned<>::share(objects_.at(value.operand))
                       : source::evaluate_step(final_source(number), base, locals_, function_->func_closure);
    value.known = true;
    if (!value.object) throw Miss{"there is no " + source::print(final_source(number))};
    return value.object.get();
  }

 private:
  struct Value {
    std::unique_ptr<Source> row;
    std::size_t base = 0, operand = 0;
    int depth = 0;
    std::string_view name;
    const Source* source = nullptr;
    py::Owned<> object;
    bool known = false, open = false;
  };

  region::Capture& capture() { return region_->capture; }
  PyCodeObject* code() const { return reinterpret_cast<PyCodeObject*>(function_->func_code); }

  // ---- sources
  void read_sources() {
    const std::size_t count = in_.count();
    values_.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      Value& value = values_[i];
      value.row = std::make_unique<Source>();
      value.row->step = static_cast<Step>(in_.below(kSteps));
      value.base = in_.below(i + 1);  // parents come first
      value.depth = value.base == 0 ? 0 : values_[value.base - 1].depth + 1;
      if (value.depth > kDeepest) throw Miss{"a source has too many steps"};
      value.row->index = in_.signed_number();
      const bool is_object = value.row->step == Step::Const || value.row->step == Step::DictItem;
      if (is_object) {
        value.operand = in_.below(objects_.size());
      } else {
        value.name = in_.text();
      }
      const bool is_root =
          value.row->step == Step::Const || value.row->step == Step::Local || value.row->step == Step::Free;
      if (is_root != (value.base == 0)) throw Miss{"a source hangs on nothing"};
    }
  }

  // In the table of the capture: what it hangs on first.
  const Source* final_source(std::size_t number) {
    Value& value = values_.at(number);
    if (value.source != nullptr) return value.source;
    auto& table = capture().sources;
    const Source* const base = value.base == 0 ? nullptr : final_source(value.base - 1);
    const auto name = [&] { return py::interned(py::str(std::string(value.name)).get()); };
    const std::int64_t index = value.row->index;
    const auto made = [&]() -> const Source* {
      switch (value.row->step) {
        case Step::Local: {
          const int arguments = code()->co_argcount + code()->co_kwonlyargcount +
                                ((code()->co_flags & CO_VARARGS) != 0 ? 1 : 0) +
                                ((code()->co_flags & CO_VARKEYWORDS) != 0 ? 1 : 0);
          if (index < 0 || index >= arguments) throw Miss{"there is no such argument"};
          return table.local(static_cast<int>(index), py::slot_name(code(), static_cast<int>(index)));
        }
        case Step::Free: {
          PyObject* const closure = function_->func_closure;
          if (closure == nullptr || index < 0 || index >= PyTuple_GET_SIZE(closure))
            throw Miss{"there is no such free variable"};
          return table.free(static_cast<int>(index), name().get());
        }
        case Step::Const:
          return table.constant(objects_.at(value.operand));
        case Step::InstanceAttr:
          return table.instance_attr(base, name().get());
        case Step::DictOf:
          return table.dict_of(base);
        case Step::Item:
          return table.item(base, index);
        case Step::DictItem:
          return table.dict_item(base, objects_.at(value.operand));
        case Step::Member:
          return table.member(base, name().get());
        case Step::CellContents:
          return table.cell_contents(base);
        case Step::Size:
          return table.size_of(base, index);
        case Step::Stride:
          return table.stride_of(base, index);
        case Step::Plain:
          return table.plain(base);
        case Step::Part:
          return table.part(base, index);
        case Step::Ahead:
          return table.ahead(base, index);
        case Step::ValueAhead:
          return table.value_ahead(base, index);
        case Step::FunctionMode:
          break;
      }
      throw Miss{"a source is of no kind"};
    };
    value.source = made();
    return value.source;
  }

  // One more than the number; 0: none.
  std::size_t optional_source() { return in_.below(values_.size() + 1); }
  const Source* source() {
    const std::size_t number = optional_source();
    if (number == 0) throw Miss{"a source is missing"};
    return final_source(number - 1);
  }

  void read_registrations() {
    const std::size_t count = in_.count();
    for (std::size_t i = 0; i < count; ++i) {
      PyObject* const type = objects_.at(in_.below(objects_.size()));
      if (!is_abstract(type)) throw Miss{"a class is not abstract"};
      if (registered_with(type) != in_.text()) throw Miss{"other classes are registered with " + source::describe(type)};
    }
  }

  // ---- guards
  void read_guards() {
    const std::size_t count = in_.count();
    for (std::size_t i = 0; i < count; ++i) read_guard();
  }
  void read_guard() {
    Guard guard;
    guard.kind = static_cast<Kind>(in_.below(guards::kKinds));
    const std::size_t source = optional_source(), other = optional_source();
    if (source != 0) guard.source = final_source(source - 1);
    if (other != 0) guard.other = final_source(other - 1);
    guard.number = in_.signed_number();
    guard.why.operation = words();
    if (guard.kind == Kind::ABC_TOKEN) guard.number = token_now();
    const Form form = form_of(guard.kind);
    const guards::Traits& kind = guards::traits(guard.kind);
    const bool is_ambient = kind.place == guards::Place::Ambient || kind.place == guards::Place::Sources;
    if (form == Form::Refused || is_ambient != (source == 0) ||
        (kind.place == guards::Place::Pair) != (other != 0))
      throw Miss{"a guard has no form"};
    switch (form) {
      case Form::Object: {
        const std::size_t operand = in_.below(objects_.size());
        guard.operand = py::Owned<>::share(operand_of(guard, operand, source));
        if (!has_operand_of_its_kind(guard)) throw Miss{"a guard has no operand"};
        break;
      }
      case Form::Lookup: {
        PyObject* const name = objects_.at(in_.below(objects_.size()));
        const std::size_t found = in_.below(objects_.size() + 1);
        PyObject* const type = guard.source->operand.get();
        if (guard.source->step != Step::Const || !PyType_Check(type) || !PyUnicode_CheckExact(name))
          throw Miss{"a guard has no class"};
        const auto interned = py::interned(name);
        PyObject* const now = py::type_lookup(reinterpret_cast<PyTypeObject*>(type), interned.get());
        if ((found != 0) != (now != nullptr)) throw Miss{"a class has more or less than it had"};
        if (now != nullptr) (void)objects_.same(found - 1, now);
        guard.operand = now == nullptr ? py::take(PyTuple_Pack(1, interned.get()))
                                       : py::take(PyTuple_Pack(2, interned.get(), now));
        break;
      }
      case Form::Function:
        read_function(guard, source - 1);
        break;
      case Form::Tensor: {
        PyObject* const type = objects_.at(in_.below(objects_.size()));
        const std::string_view layout = in_.text();
        PyObject* const tensor = value_of(source - 1);
        if (!aten::is_tensor(tensor) || reinterpret_cast<PyObject*>(Py_TYPE(tensor)) != type ||
            aten::layout_text(tensor) != layout)
          throw Miss{"a tensor has another layout: " + source::print(guard.source)};
        guard.tensor = aten::TensorSpec::of(tensor);
        break;
      }
      case Form::Sources: {
        const std::size_t count = in_.count();
        auto ids = py::take(PyTuple_New(static_cast<Py_ssize_t>(count)));
        for (std::size_t i = 0; i < count; ++i)
          PyTuple_SET_ITEM(ids.get(), static_cast<Py_ssize_t>(i), py::take(PyLong_FromLong(this->source()->id)).release());
        guard.operand = std::move(ids);
        break;
      }
      default:
        break;
    }
    capture().guards.add(std::move(guard));
  }
  // An equal value that is where the guard looks stands for the one that the other process had: some guards, and
  // sets of them, compare identities.
  PyObject* operand_of(const Guard& guard, std::size_t operand, std::size_t source) {
    if (guard.kind == Kind::ID_MATCH) return objects_.same(operand, value_of(source - 1));
    return objects_.at(operand);
  }
  void read_function(Guard& guard, std::size_t source) {
    PyObject* const function = objects_.at(in_.below(objects_.size()));
    if (!PyFunction_Check(function) || value_of(source) != function) throw Miss{"a function is another one"};
    auto* const f = reinterpret_cast<PyFunctionObject*>(function);
    PyObject* const parts[] = {f->func_code, f->func_defaults, f->func_kwdefaults, f->func_globals, f->func_builtins};
    const std::size_t count = in_.below(6);
    if (count != 3 && count != 5) throw Miss{"a function has other parts"};
    auto operand = py::take(PyTuple_New(static_cast<Py_ssize_t>(count)));
    for (std::size_t i = 0; i < count; ++i) {
      PyObject* const now = parts[i] == nullptr ? Py_None : parts[i];
      (void)objects_.same(in_.below(objects_.size()), now);
      PyTuple_SET_ITEM(operand.get(), static_cast<Py_ssize_t>(i), Py_NewRef(now));
    }
    guard.operand = std::move(operand);
  }

  // For people, who are told no bytes that are no text.
  std::string words() {
    std::string text(in_.text());
    const auto decoded =
        py::Owned<>::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), nullptr));
    if (decoded) return text;
    PyErr_Clear();
    throw Miss{"a text is none"};
  }

  // ---- the graph
  std::string name() {
    std::string text = words();
    constexpr std::size_t kLongest = 10000;
    const bool is_name = !text.empty() && text.size() < kLongest && std::ranges::all_of(text, [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '_' || c >= 0x80;
    });
    if (!is_name || !names_.insert(text).second) throw Miss{"a node has no name of its own"};
    return text;
  }
  Node* node() {
    if (nodes_.empty()) throw Miss{"there is no node"};
    return nodes_[in_.below(nodes_.size())];
  }
  std::vector<Node*> node_list() {
    std::vector<Node*> list;
    const std::size_t count = in_.count();
    for (std::size_t i = 0; i < count; ++i) list.push_back(node());
    return list;
  }
  void read_graph() {
    graph::Graph& graph = capture().graph;
    const std::size_t inputs = in_.count();
    for (std::size_t i = 0; i < inputs; ++i) {
      const Source* const from = source();
      std::string called = name();
      std::string text = words();
      if (text.empty()) throw Miss{"an input has no source"};
      Node* const made = graph.placeholder(called, py::Owned<>::share(Py_None), from->id, std::move(text));
      made->target = py::str(called);
      made->name = std::move(called);
      nodes_.push_back(made);
    }
    const std::size_t count = in_.count();
    for (std::size_t i = 0; i < count; ++i) read_node();
    graph.output(node_list());
  }
  void read_node() {
    const bool is_method = in_.flag();
    PyObject* const target = objects_.at(in_.below(objects_.size()));
    std::string called = name();
    const bool may_raise = in_.flag();
    std::vector<Arg> args;
    const std::size_t count = in_.count();
    for (std::size_t i = 0; i < count; ++i) args.push_back(read_arg(0));
    if (is_method && args.empty()) throw Miss{"a method of nothing"};
    std::vector<std::pair<py::Owned<>, Arg>> kwargs;
    const std::size_t keywords = in_.count();
    for (std::size_t i = 0; i < keywords; ++i) {
      auto key = py::Owned<>::share(objects_.at(in_.below(objects_.size())));
      if (!PyUnicode_CheckExact(key.get())) throw Miss{"a keyword is no text"};
      kwargs.emplace_back(std::move(key), read_arg(0));
    }
    Node* const made =
        capture().graph.call(is_method ? Op::CallMethod : Op::CallFunction, py::Owned<>::share(target), std::move(args),
                             std::move(kwargs), py::Owned<>::share(Py_None));
    if (is_method ? !is_method_of_tensor(target) : !is_operator(target) && !is_read_of_tensor(*made))
      throw Miss{"a node calls no operator"};
    made->name = std::move(called);
    made->may_raise = may_raise;
    nodes_.push_back(made);
  }
  Arg read_arg(int depth) {
    if (depth > kDeepest) throw Miss{"arguments are nested too deeply"};
    Arg arg;
    arg.kind = static_cast<Arg::Kind>(in_.below(static_cast<std::size_t>(Arg::Kind::Slice) + 1));
    if (arg.kind == Arg::Kind::Node) {
      arg.node = node();
      return arg;
    }
    if (arg.kind == Arg::Kind::Constant) {
      PyObject* const constant = objects_.at(in_.below(objects_.size()));
      // A function that an operator is given could be called by it.
      if (PyCallable_Check(constant) && !PyType_Check(constant)) throw Miss{"an argument can be called"};
      arg.constant = py::Owned<>::share(constant);
      return arg;
    }
    if (arg.kind == Arg::Kind::Tuple && in_.flag())
      arg.constant = py::Owned<>::share(reinterpret_cast<PyObject*>(region::torch_size_type()));
    const std::size_t count = in_.count();
    for (std::size_t i = 0; i < count; ++i) arg.items.push_back(read_arg(depth + 1));
    if (arg.kind == Arg::Kind::Slice && count != 3) throw Miss{"a slice has three parts"};
    if (arg.kind != Arg::Kind::Dict) return arg;
    for (std::size_t i = 0; i < count; ++i) arg.keys.push_back(py::Owned<>::share(objects_.at(in_.below(objects_.size()))));
    return arg;
  }

  // ---- the plan
  void read_plan() {
    codegen::Plan& plan = region_->plan;
    const std::size_t count = in_.count();
    fresh_ = count;
    for (std::size_t i = 0; i < count; ++i) {
      codegen::Fresh fresh{.original = nullptr};
      fresh.make = read_expr(0);
      fresh.fill = read_stmts();
      fresh.uses = static_cast<int>(in_.below(1U << 30));
      fresh.named = in_.flag();
      plan.fresh.push_back(std::move(fresh));
    }
    const std::size_t named = in_.count();
    std::set<std::size_t> ordered;
    for (std::size_t i = 0; i < named; ++i) {
      const std::size_t index = in_.below(std::max<std::size_t>(count, 1));
      if (index >= count || !plan.fresh[index].named || !ordered.insert(index).second)
        throw Miss{"objects have no order"};
      plan.order.push_back(static_cast<int>(index));
    }
    plan.effects = read_stmts();
    plan.result = read_expr(0);
    plan.outputs = node_list();
    refuse_circles(plan);
    for (const codegen::Fresh& fresh : plan.fresh) {
      for (const Stmt& stmt : fresh.fill) check_raw(plan, stmt);
    }
    for (const Stmt& stmt : plan.effects) check_raw(plan, stmt);
  }
  // Instructions that look into what they are given without asking what it is.
  void check_raw(const codegen::Plan& plan, const Stmt& stmt) {
    const bool appends = stmt.kind == Stmt::Kind::Append;
    if (!appends && stmt.kind != Stmt::Kind::Add) return;
    PyTypeObject* const type = appends ? &PyList_Type : &PySet_Type;
    const auto makes_it = [&](const Expr& make) {
      if (make.kind == (appends ? Expr::Kind::List : Expr::Kind::Set)) return true;
      if (make.kind != Expr::Kind::Call) return false;
      PyObject* const callee = make.object.get();
      if (callee == reinterpret_cast<PyObject*>(type)) return true;
      return PyCFunction_Check(callee) && PyCFunction_GET_SELF(callee) == reinterpret_cast<PyObject*>(type) &&
             std::string_view(reinterpret_cast<PyCFunctionObject*>(callee)->m_ml->ml_name) == "__new__";
    };
    const auto is_guarded = [&](const Guard& guard) {
      return guard.kind == Kind::TYPE_MATCH && guard.source == stmt.target.source &&
             PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(guard.operand.get()), type) != 0;
    };
    const bool is_sure = stmt.target.kind == Expr::Kind::Fresh
                             ? makes_it(plan.fresh[static_cast<std::size_t>(stmt.target.index)].make)
                             : stmt.target.kind == Expr::Kind::Source &&
                                   std::ranges::any_of(capture().guards.all(), is_guarded);
    if (!is_sure) throw Miss{"something is added to what is no container"};
  }
  // What is built in place is built of what comes before it, or emitting it would not end; what is named is in order.
  static void refuse_circles(const codegen::Plan& plan) {
    std::vector<int> at(plan.fresh.size(), -1);
    for (std::size_t i = 0; i < plan.order.size(); ++i)
      at[static_cast<std::size_t>(plan.order[i])] = static_cast<int>(i);
    std::vector<std::uint8_t> state(plan.fresh.size(), 0);
    const auto visit = [&](auto& self, std::size_t index, int depth) -> void {
      if (state[index] == 2) return;
      if (state[index] == 1 || depth > kDeepest) throw Miss{"objects are made of themselves"};
      state[index] = 1;
      each(plan.fresh[index].make, [&](const Expr& part) {
        if (part.kind == Expr::Kind::Fresh) self(self, static_cast<std::size_t>(part.index), depth + 1);
      });
      state[index] = 2;
    };
    for (std::size_t i = 0; i < plan.fresh.size(); ++i) {
      if (plan.fresh[i].named != (at[i] >= 0)) throw Miss{"an object is not made"};
      if (!plan.fresh[i].named && !plan.fresh[i].fill.empty()) throw Miss{"an object is not filled"};
      visit(visit, i, 0);
    }
  }
  std::vector<Stmt> read_stmts() {
    std::vector<Stmt> stmts;
    const std::size_t count = in_.count();
    for (std::size_t i = 0; i < count; ++i) {
      Stmt stmt{.kind = static_cast<Stmt::Kind>(in_.below(static_cast<std::size_t>(Stmt::Kind::Add) + 1))};
      stmt.target = read_expr(0);
      stmt.key = read_expr(0);
      stmt.value = read_expr(0);
      const std::size_t called = in_.below(objects_.size() + 1);
      if (called != 0) stmt.name = py::Owned<>::share(objects_.at(called - 1));
      const bool needs_name = stmt.kind == Stmt::Kind::SetAttr || stmt.kind == Stmt::Kind::DelAttr;
      if (needs_name && (!stmt.name || !PyUnicode_CheckExact(stmt.name.get()))) throw Miss{"an attribute has no name"};
      if (!changes_only_its_own(stmt)) throw Miss{"a plan changes what it must not"};
      stmts.push_back(std::move(stmt));
    }
    return stmts;
  }
  Expr read_expr(int depth) {
    if (depth > kDeepest) throw Miss{"expressions are nested too deeply"};
    Expr expr;
    expr.kind = static_cast<Expr::Kind>(in_.below(static_cast<std::size_t>(Expr::Kind::CallKw)));
    switch (expr.kind) {
      case Expr::Kind::Constant:
        if (in_.flag()) expr.object = py::Owned<>::share(objects_.at(in_.below(objects_.size())));
        return expr;
      case Expr::Kind::Source:
        expr.source = source();
        return expr;
      case Expr::Kind::Output:
        expr.node = node();
        return expr;
      case Expr::Kind::Fresh:
        expr.index = static_cast<int>(in_.below(std::max<std::size_t>(fresh_, 1)));
        if (fresh_ == 0) throw Miss{"an object is not there"};
        return expr;
      case Expr::Kind::Call:
        expr.object = py::Owned<>::share(objects_.at(in_.below(objects_.size())));
        if (!is_builder(expr.object.get())) throw Miss{"a plan calls what makes no container"};
        break;
      default:
        break;
    }
    const std::size_t count = in_.count();
    for (std::size_t i = 0; i < count; ++i) expr.items.push_back(read_expr(depth + 1));
    if (expr.kind == Expr::Kind::Slice && count != 3) throw Miss{"a slice has three parts"};
    if (expr.kind == Expr::Kind::Map && count % 2 != 0) throw Miss{"a key has no value"};
    return expr;
  }

  void read_rest() {
    UndoPlan& undo = region_->undo;
    undo.may_raise = in_.flag();
    undo.generators = in_.flag();
    undo.cuda = in_.flag();
    const std::size_t inputs = in_.count();
    const std::size_t placeholders = capture().graph.placeholders().size();
    for (std::size_t i = 0; i < inputs; ++i) {
      const std::size_t position = in_.below(std::max<std::size_t>(placeholders, 1));
      const auto keep = static_cast<aten::Keep>(in_.below(static_cast<std::size_t>(aten::Keep::Contents) + 1));
      if (placeholders == 0) throw Miss{"there is no such input"};
      undo.inputs.push_back({position, keep});
    }
    capture().depth = static_cast<int>(in_.below(1U << 20));
    const std::size_t numbers = in_.count();
    for (std::size_t i = 0; i < numbers; ++i) {
      const Source* const place = source();
      const std::int64_t dim = in_.signed_number();
      const region::PathHash path = dim < 0 ? region::hash_of(place)
                                            : region::hash_below(region::hash_of(place), Step::Size, dim, nullptr);
      region::SeenNumber seen;
      seen.bits = in_.number();
      seen.is_float = in_.flag();
      seen.pinned = in_.flag();
      capture().numbers.emplace_back(path, seen);
    }
  }

  // Emitted code loads by the quick instruction where the value at hand allows it.
  void know_values() {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const Source* const source = final_source(i);
      if (source::is_of_layout(source->step) || !values_[i].known) continue;
      PyObject* const value = values_[i].object.get();
      capture().source_of.try_emplace(value, source);
      capture().alive.push_back(values_[i].object.copy());
    }
  }

  ByteReader in_;
  PyFunctionObject* function_;
  PyObject* const* locals_;
  ObjectReader objects_;
  std::unique_ptr<KeptRegion> region_ = std::make_unique<KeptRegion>();
  std::vector<Value> values_;
  std::vector<Node*> nodes_;
  std::set<std::string> names_;
  std::size_t fresh_ = 0;
};

}  // namespace

std::string kept_bytes(const region::Capture& capture, PyObject* const* locals) {
  return Keeper(capture, locals).bytes();
}

std::unique_ptr<KeptRegion> read_region(std::string_view bytes, PyFunctionObject* function, PyObject* const* locals) {
  return Reader(bytes, function, locals).region();
}

}  // namespace pellucid::runtime
