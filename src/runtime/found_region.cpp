// A kept capture, as this process has its objects: nothing that is read is trusted.
#include <algorithm>
#include <cctype>
#include <set>

#include "aten/world.h"
#include "codegen/emit.h"
#include "guards/traits.h"
#include "py/cpython.h"
#include "region/torch_module.h"
#include "region/types.h"
#include "runtime/kept_region.h"
#include "runtime/kept_rules.h"

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

// Says that the classes of this process which could be asked are registered as they are now.
std::int64_t token_now() {
  static PyObject* const token = py::import_attr("abc", "get_cache_token").release();
  const auto value = py::take(PyObject_CallNoArgs(token));
  const std::int64_t number = PyLong_AsLongLong(value.get());
  if (number == -1 && PyErr_Occurred() != nullptr) py::throw_pending();
  return number;
}

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
        case Step::Drawn:
        case Step::OverArray:
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
      if (registered_with(type) != in_.text())
        throw Miss{"other classes are registered with " + source::describe(type)};
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
    guard.why.operation = words_met_before();
    if (guard.kind == Kind::ABC_TOKEN) guard.number = token_now();
    const Form form = form_of(guard.kind);
    const guards::Traits& kind = guards::traits(guard.kind);
    const bool is_ambient = kind.place == guards::Place::Ambient || kind.place == guards::Place::Sources;
    if (form == Form::Refused || is_ambient != (source == 0) || (kind.place == guards::Place::Pair) != (other != 0))
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
        guard.operand =
            now == nullptr ? py::take(PyTuple_Pack(1, interned.get())) : py::take(PyTuple_Pack(2, interned.get(), now));
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
          PyTuple_SET_ITEM(ids.get(), static_cast<Py_ssize_t>(i),
                           py::take(PyLong_FromLong(this->source()->id)).release());
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

  std::string words_met_before() {
    const std::size_t number = in_.below(texts_.size() + 1);
    if (number == 0) texts_.push_back(words());
    return number == 0 ? texts_.back() : texts_[number - 1];
  }
  // For people, who are told no bytes that are no text.
  std::string words() {
    std::string text(in_.text());
    if (std::ranges::all_of(text, [](unsigned char c) { return c < 0x80; })) return text;
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
    Node* const made = capture().graph.call(is_method ? Op::CallMethod : Op::CallFunction, py::Owned<>::share(target),
                                            std::move(args), std::move(kwargs), py::Owned<>::share(Py_None));
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
    for (std::size_t i = 0; i < count; ++i)
      arg.keys.push_back(py::Owned<>::share(objects_.at(in_.below(objects_.size()))));
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
    const bool is_sure =
        stmt.target.kind == Expr::Kind::Fresh
            ? makes_it(plan.fresh[static_cast<std::size_t>(stmt.target.index)].make)
            : stmt.target.kind == Expr::Kind::Source && std::ranges::any_of(capture().guards.all(), is_guarded);
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
      const region::PathHash path =
          dim < 0 ? region::hash_of(place) : region::hash_below(region::hash_of(place), Step::Size, dim, nullptr);
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
  std::vector<std::string> texts_;
  std::size_t fresh_ = 0;
};

}  // namespace

std::unique_ptr<KeptRegion> read_region(std::string_view bytes, PyFunctionObject* function, PyObject* const* locals) {
  return Reader(bytes, function, locals).region();
}

}  // namespace pellucid::runtime
