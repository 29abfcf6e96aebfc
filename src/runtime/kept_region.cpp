#include "runtime/kept_region.h"

#include <algorithm>
#include <map>

#include "aten/world.h"
#include "codegen/emit.h"
#include "guards/traits.h"
#include "py/numpy_array.h"
#include "region/process.h"
#include "region/torch_module.h"
#include "region/types.h"
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
    if (capture_.of_this_process != nullptr)
      throw Unkept{std::string(capture_.of_this_process) + ", which another process has otherwise"};
    if (capture_.follows_modes) throw Unkept{"torch function modes are open"};
    if (capture_.after) throw Unkept{"it leaves the state of torch changed"};
    if (!capture_.hooked_inside.empty()) throw Unkept{"it hangs hooks on tensors inside of its graph"};
    if (!capture_.draws.empty()) throw Unkept{"it draws random numbers"};
    if (capture_.exit) throw Unkept{"it ends before the program does"};
    if (!capture_.open.is_empty()) throw Unkept{"numbers are open"};
    if (capture_.has_unbacked || capture_.has_value_checks) throw Unkept{"it depends on values of tensors"};
    if (!capture_.bodies->empty()) throw Unkept{"its graph has graphs in it"};
    if (!undo_.attributes.empty()) throw Unkept{"its graph writes into a tensor of its own"};
  }

  void write_all(ByteWriter& out) {
    texts_.clear();
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
      if (s->step == Step::OverArray) throw Unkept{"it takes arrays of numpy"};
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
      const std::string registered = registered_with(type);
      if (registered.empty()) throw Unkept{"__subclasshook__ of " + source::describe(type) + " is asked"};
      out.number(objects_.id(type));
      out.text(registered);
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
    write_words(out, guard.why.operation);
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
  // Many guards are there for the same reason: a text is written once, and by its number from then on.
  void write_words(ByteWriter& out, const std::string& text) {
    const auto [known, is_new] = texts_.emplace(text, texts_.size() + 1);
    out.number(is_new ? 0 : known->second);
    if (is_new) out.text(text);
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
      if (region::has_order_of_this_process(fresh.original))
        throw Unkept{"it makes a set with an order of this process"};
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
    const auto add_size = [&](const Source* of, std::int64_t dim) {
      places.emplace(region::hash_below(region::hash_of(of), Step::Size, dim, nullptr), std::pair(of, dim));
    };
    for (const Guard& guard : capture_.guards.all()) {
      if (guard.source == nullptr) continue;
      if (guard.kind == Kind::EQUALS_MATCH) places.emplace(region::hash_of(guard.source), std::pair(guard.source, -1));
      for (std::int64_t dim = 0, size = 0; guard.kind == Kind::TENSOR_MATCH && guard.tensor->size_at(dim, &size); ++dim)
        add_size(guard.source, dim);
      const bool is_array = guard.kind == Kind::ARRAY_MATCH;
      for (std::int64_t dim = 0, size = 0; is_array && py::size_in_layout(guard.operand.get(), dim, &size); ++dim)
        add_size(guard.source, dim);
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
  std::map<std::string, std::size_t> texts_;
  std::vector<py::Owned<>> held_;
};

}  // namespace

std::string kept_bytes(const region::Capture& capture, PyObject* const* locals) {
  return Keeper(capture, locals).bytes();
}

}  // namespace pellucid::runtime
