// The graph as one code object: what torch.fx would generate as text and compile, without the text. Callables and
// constants that cannot be marshalled are globals of the function, under readable names.
#include <algorithm>
#include <memory>
#include <unordered_map>

#include "aten/aten.h"
#include "backend/forward_globals.h"
#include "backend/fx.h"
#include "bytecode/assemble.h"
#include "graph/bodies.h"

namespace pellucid::backend {
namespace {
using bytecode::Assembler;
using bytecode::Opcode;
using graph::Arg;
using graph::Node;
using graph::Op;

// A call of one of these functions is the opcode: both end in the same C function (PyNumber_Add, PyObject_GetItem, …).
struct Direct {
  const char* name;
  Opcode op;
  int arg;
  std::size_t operands;
};
constexpr Direct kDirect[] = {
#define BINARY(number, name, symbol, function, ...) {function, Opcode::BINARY_OP, number, 2},
#define UNARY(opcode, symbol, function, ...) {function, Opcode::opcode, 0, 1},
#define COMPARE(name, symbol, function, ...) {function, Opcode::COMPARE_OP, Py_##name, 2},
#include "py/operators.def"
    {"getitem", Opcode::BINARY_SUBSCR, 0, 2},
    {"not_", Opcode::UNARY_NOT, 0, 1},
};

const Direct* direct_of(PyObject* callable) {
  static const auto* table = [] {
    auto made = std::make_unique<std::unordered_map<PyObject*, const Direct*>>();
    for (const Direct& row : kDirect) made->emplace(py::import_attr("operator", row.name).release(), &row);
    return made.release();
  }();
  const auto found = table->find(callable);
  return found == table->end() ? nullptr : found->second;
}

class Emitter {
 public:
  explicit Emitter(const graph::Graph& graph)
      : graph_(graph), code_(signature_of(graph)), last_use_(last_uses(graph)), on_stack_(staying(graph)) {}

  py::Owned<> function() {
    code_.prologue();
    for (const Node* node : graph_.placeholders()) release_if_unused(*node);
    for (const Node* node : graph_.nodes()) {
      code_.set_position({.line = line_of(*node)});
      emit_value(*node);
      if (!stays(node)) store(*node);
      release_inputs(*node);
    }
    for (const Node* node : graph_.outputs()) load(node);
    if (graph_.body == nullptr || !graph_.body->gives_one)
      code_.emit(Opcode::BUILD_TUPLE, static_cast<int>(graph_.outputs().size()));
    code_.emit(Opcode::RETURN_VALUE);
    auto made = code_.finish();
    return py::take(PyFunction_New(made.object(), globals_.dict()));
  }

 private:
  static bytecode::Signature signature_of(const graph::Graph& graph) {
    bytecode::Signature signature;
    signature.argcount = static_cast<int>(graph.placeholders().size());
    for (const Node* node : graph.placeholders()) signature.varnames.push_back(node->target.copy());
    for (const Node* node : graph.nodes()) signature.varnames.push_back(py::str(node->name));
    signature.filename = py::str("<pellucid graph>");
    signature.name = py::str("forward");
    return signature;
  }

  // Each node has a line of its own, as in the text that torch.fx writes: behind `def`, its place among torch.fx's
  // nodes.
  int line_of(const Node& node) const { return 2 + slot(&node); }

  int slot(const Node* node) const {
    const auto before = node->op == Op::Placeholder ? 0 : graph_.placeholders().size();
    return static_cast<int>(before) + node->index;
  }

  // Slot -> the node behind which the value is dead; null: it is an output.
  static std::vector<const Node*> last_uses(const graph::Graph& graph) {
    std::vector<const Node*> uses(graph.placeholders().size() + graph.nodes().size(), nullptr);
    const auto slot_of = [&](const Node* node) {
      return (node->op == Op::Placeholder ? 0 : graph.placeholders().size()) + static_cast<std::size_t>(node->index);
    };
    for (const Node* node : graph.nodes()) {
      graph::for_each_input(*node, [&](const Node* input) { uses[slot_of(input)] = node; });
    }
    for (const Node* node : graph.outputs()) uses[slot_of(node)] = nullptr;
    return uses;
  }

  // How many of its first arguments a node may find on the stack.
  static std::size_t operands_on_stack(const Node& node) {
    if (const Direct* direct = direct_form(node)) return direct->operands;
    if (node.steps != nullptr) return 0;
    return node.op == Op::CallMethod ? 1 : 0;
  }

  static bool is_held_once(const Node& node) {
    PyObject* const example = node.example_value.get();
    return node.op != Op::Placeholder && node.users == 1 && example != nullptr && !aten::is_tensor(example);
  }

  // Which arrays no variable holds, as in the program's own expressions: numpy computes in the memory of an array that
  // only the stack holds. (Tensors stay in variables, where a debugger finds them.) What is pushed later has to be
  // taken earlier; where it is not, a variable holds it.
  static std::vector<bool> staying(const graph::Graph& graph) {
    const std::size_t count = graph.nodes().size();
    std::vector<bool> may_stay(count, false), stays(count, false);
    const auto for_each_operand = [&](const Node& node, auto&& visit) {
      for (std::size_t i = 0; i < operands_on_stack(node); ++i) {
        const Node* input = node.args[i].kind == Arg::Kind::Node ? node.args[i].node : nullptr;
        if (input != nullptr && is_held_once(*input)) visit(input);
      }
    };
    const auto index_of = [](const Node* node) { return static_cast<std::size_t>(node->index); };
    for (const Node* node : graph.nodes())
      for_each_operand(*node, [&](const Node* input) { may_stay[index_of(input)] = true; });
    const Node* given = graph.outputs().size() == 1 ? graph.outputs()[0] : nullptr;
    if (given != nullptr && is_held_once(*given)) may_stay[index_of(given)] = true;
    std::vector<const Node*> waiting;
    const auto take = [&](const Node* node) {
      if (std::ranges::find(waiting, node) == waiting.end()) return;
      while (waiting.back() != node) waiting.pop_back();
      waiting.pop_back();
      stays[index_of(node)] = true;
    };
    for (const Node* node : graph.nodes()) {
      std::vector<const Node*> operands;
      for_each_operand(*node, [&](const Node* input) { operands.push_back(input); });
      std::ranges::sort(operands, std::ranges::greater(), &Node::index);
      for (const Node* operand : operands) take(operand);
      if (may_stay[index_of(node)]) waiting.push_back(node);
    }
    if (given != nullptr) take(given);
    return stays;
  }

  bool stays(const Node* node) const {
    return node->op != Op::Placeholder && on_stack_[static_cast<std::size_t>(node->index)];
  }

  void load(const Node* node) {
    if (!stays(node)) code_.load_fast(slot(node));
  }

  void store(const Node& node) {
    if (node.users > 0) {
      code_.store_fast(slot(&node));
    } else {
      code_.emit(Opcode::POP_TOP);
    }
  }

  void release_if_unused(const Node& placeholder) {
    if (placeholder.users == 0) code_.emit(Opcode::DELETE_FAST, slot(&placeholder));
  }

  void release_inputs(const Node& node) {
    std::vector<int> dead;
    graph::for_each_input(node, [&](const Node* input) {
      if (stays(input)) return;
      const int at = slot(input);
      if (last_use_[static_cast<std::size_t>(at)] == &node && std::find(dead.begin(), dead.end(), at) == dead.end())
        dead.push_back(at);
    });
    for (const int at : dead) code_.emit(Opcode::DELETE_FAST, at);
  }

  void emit_value(const Node& node) {
    if (emit_directly(node)) return;
    if (node.steps != nullptr) {
      emit_steps(node);
    } else if (node.body != nullptr) {
      code_.load_global(globals_.add(native_forward(node.body->graph).get(), node.name));
    } else if (node.op == Op::GetAttr) {
      code_.load_global(globals_.add(node.attribute.get(), node.name));
    } else if (node.op == Op::CallMethod) {
      emit_arg(node.args.at(0));
      code_.load_method(node.target.get());
      emit_call(node, 1);
    } else {
      PyObject* callable = node.plain ? node.plain.get() : node.target.get();
      code_.load_global(globals_.add(callable, graph::candidate_of_target(node.target.get())), true);
      emit_call(node, 0);
    }
  }

  static const Direct* direct_form(const Node& node) {
    if (node.op != Op::CallFunction || node.body != nullptr || !node.kwargs.empty()) return nullptr;
    const bool is_itself = node.steps == nullptr || operands_of(node) != nullptr;
    const Direct* direct = is_itself ? direct_of(node.target.get()) : nullptr;
    return direct == nullptr || node.args.size() != direct->operands ? nullptr : direct;
  }

  // Of a node that is an operator and whose one step is the same, with other constants; else null.
  static const std::vector<graph::Steps::Value>* operands_of(const Node& node) {
    if (node.steps == nullptr || node.steps->calls.size() != 1) return nullptr;
    const graph::Steps::Call& call = node.steps->calls[0];
    return call.callable.get() == node.target.get() ? &call.args : nullptr;
  }

  // Whether the second operand lies on the stack already when the first one is loaded.
  bool is_below(const Arg& second, const Arg& first) const {
    if (second.kind != Arg::Kind::Node || !stays(second.node)) return false;
    return first.kind != Arg::Kind::Node || !stays(first.node) || first.node->index > second.node->index;
  }

  bool emit_directly(const Node& node) {
    const Direct* direct = direct_form(node);
    if (direct == nullptr) return false;
    const auto* operands = operands_of(node);
    for (std::size_t i = 0; i < node.args.size(); ++i) {
      if (operands != nullptr && (*operands)[i].kind == graph::Steps::Value::Kind::Constant)
        emit_constant((*operands)[i].constant.get());
      else
        emit_arg(node.args[i]);
    }
    if (direct->operands == 2 && is_below(node.args[1], node.args[0])) code_.emit(Opcode::SWAP, 2);
    code_.emit(direct->op, direct->arg);
    return true;
  }

  // What a step gave lies in a variable until its last use; what the last one gave, on the stack.
  void emit_steps(const Node& node) {
    using Kind = graph::Steps::Value::Kind;
    const graph::Steps& steps = *node.steps;
    const std::size_t last = steps.calls.size() - 1;
    std::vector<std::size_t> used_until(steps.calls.size(), 0);  // 0: never
    for (std::size_t i = 0; i <= last; ++i) {
      for (const auto& value : steps.calls[i].args) {
        if (value.kind == Kind::Result) used_until[value.index] = i;
      }
    }
    if (steps.gives != last) used_until[steps.gives] = last + 1;
    std::vector<int> variable(steps.calls.size(), -1);
    std::vector<int> free;
    for (std::size_t i = 0; i <= last; ++i) {
      const graph::Steps::Call& call = steps.calls[i];
      const Direct* direct = call.kwnames ? nullptr : direct_of(call.callable.get());
      if (direct == nullptr)
        code_.load_global(globals_.add(call.callable.get(), graph::candidate_of_target(call.callable.get())), true);
      for (const auto& value : call.args) {
        if (value.kind == Kind::Constant)
          emit_constant(value.constant.get());
        else if (value.kind == Kind::Result)
          code_.load_fast(variable[value.index]);
        else
          emit_arg(argument(node, value.index));
      }
      if (direct == nullptr)
        code_.call(static_cast<int>(call.args.size()), call.kwnames.get());
      else
        code_.emit(direct->op, direct->arg);
      std::vector<int> dead;
      for (std::size_t k = 0; k < i; ++k) {
        if (used_until[k] == i) dead.push_back(variable[k]);
      }
      if (used_until[i] > i) {
        if (!dead.empty()) {  // the new value takes the place of one that nobody reads again
          variable[i] = dead.back();
          dead.pop_back();
        } else if (!free.empty()) {
          variable[i] = free.back();
          free.pop_back();
        } else {
          variable[i] = code_.local(py::str(".step" + std::to_string(steps_made_++)).get());
        }
        code_.store_fast(variable[i]);
      } else if (i != last || steps.gives != last) {
        code_.emit(Opcode::POP_TOP);
      }
      for (const int at : dead) code_.emit(Opcode::DELETE_FAST, at);
      free.insert(free.end(), dead.begin(), dead.end());
    }
    if (steps.gives == last) return;
    code_.load_fast(variable[steps.gives]);
    code_.emit(Opcode::DELETE_FAST, variable[steps.gives]);
  }

  static const Arg& argument(const Node& node, std::size_t index) {
    return index < node.args.size() ? node.args[index] : node.kwargs[index - node.args.size()].second;
  }

  void emit_call(const Node& node, std::size_t first) {
    for (std::size_t i = first; i < node.args.size(); ++i) emit_arg(node.args[i]);
    const bool has_keywords = !node.kwargs.empty() && !node.plain;  // the plain form knows them
    const int count = static_cast<int>(node.args.size() - first + (has_keywords ? node.kwargs.size() : 0));
    if (!has_keywords) return code_.call(count);
    auto names = py::take(PyTuple_New(static_cast<Py_ssize_t>(node.kwargs.size())));
    for (std::size_t i = 0; i < node.kwargs.size(); ++i) {
      PyTuple_SET_ITEM(names.get(), static_cast<Py_ssize_t>(i), Py_NewRef(node.kwargs[i].first.get()));
      emit_arg(node.kwargs[i].second);
    }
    code_.call(count, names.get());
  }

  void emit_items(const Arg& arg) {
    for (const Arg& item : arg.items) emit_arg(item);
  }

  void emit_arg(const Arg& arg) {
    const int size = static_cast<int>(arg.items.size());
    switch (arg.kind) {
      case Arg::Kind::Node:
        return load(arg.node);
      case Arg::Kind::Constant:
        return emit_constant(arg.constant.get());
      case Arg::Kind::List:
        emit_items(arg);
        return code_.emit(Opcode::BUILD_LIST, size);
      case Arg::Kind::Slice:
        emit_items(arg);
        return code_.emit(Opcode::BUILD_SLICE, size);
      case Arg::Kind::Tuple:
        return emit_tuple(arg);
      case Arg::Kind::Dict:
        for (std::size_t i = 0; i < arg.items.size(); ++i) {
          emit_constant(arg.keys[i].get());
          emit_arg(arg.items[i]);
        }
        return code_.emit(Opcode::BUILD_MAP, size);
    }
  }

  void emit_tuple(const Arg& arg) {
    const int size = static_cast<int>(arg.items.size());
    if (!arg.constant || arg.constant.get() == reinterpret_cast<PyObject*>(&PyTuple_Type)) {
      emit_items(arg);
      return code_.emit(Opcode::BUILD_TUPLE, size);
    }
    auto maker = py::Owned<>::steal(PyObject_GetAttrString(arg.constant.get(), "_make"));  // a namedtuple
    if (!maker) PyErr_Clear();
    code_.load_global(globals_.add(maker ? maker.get() : arg.constant.get(), "make_tuple"), true);
    emit_items(arg);
    code_.emit(Opcode::BUILD_TUPLE, size);
    code_.call(1);
  }

  void emit_constant(PyObject* value) {
    if (is_code_constant(value)) return code_.load_const(value);
    code_.load_global(globals_.add(value, "constant"));
  }

  const graph::Graph& graph_;
  Assembler code_;
  ForwardGlobals globals_;
  std::vector<const Node*> last_use_;
  std::vector<bool> on_stack_;  // by index of the node: no variable holds what it gives
  int steps_made_ = 0;          // variables for what steps give
};

}  // namespace

py::Owned<> native_forward(const graph::Graph& graph) { return Emitter(graph).function(); }

}  // namespace pellucid::backend
