// Instructions as expressions: each one runs over a stack of nodes.
#include <algorithm>

#include "decompile/parse.h"
#include "py/cpython.h"
#include "py/ref.h"

namespace pellucid::decompile {
namespace {

using Tag = Value::Tag;

constexpr int kInPlace = 13;          // NB_INPLACE_ADD: the in-place operators follow the plain ones in the same order
constexpr int kMostUnpacked = 10000;  // targets of one assignment

bool holds(const Stack& stack, int depth) { return depth > 0 && static_cast<std::size_t>(depth) <= stack.size(); }
Value& from_top(Stack& stack, int depth) { return stack[stack.size() - static_cast<std::size_t>(depth)]; }

int load(Parse& p, int at, Stack& stack, Name name) {
  if (name == nullptr) return -1;
  stack.push_back(Value::of(p.arena.name(name), at));
  return at + 1;
}

int put(int at, Stack& stack, const Node* node) {
  if (node == nullptr) return -1;
  stack.push_back(Value::of(node, at));
  return at + 1;
}

int put(int at, Stack& stack, Value value) {
  value.place = at;
  stack.push_back(value);
  return at + 1;
}

int wrong(Parse& p, const char* why, int at) {
  p.fail(why, at);
  return -1;
}

const Node* literal_items(Parse& p, PyObject* items, Kind kind) {
  std::vector<const Node*> nodes;
  const auto iterator = py::take(PyObject_GetIter(items));
  while (true) {
    const auto item = py::Owned<>::steal(PyIter_Next(iterator.get()));
    if (!item) break;
    const Node* node = literal(p, item.get());
    if (node == nullptr) return nullptr;
    nodes.push_back(node);
  }
  PyErr_Clear();
  return p.arena.of(kind, p.arena.list(std::move(nodes)));
}

int compare(Parse& p, int at, Stack& stack, Comparison op) {
  const Node* right = pop(p, stack);
  const Node* left = right != nullptr ? pop(p, stack) : nullptr;
  return left == nullptr ? -1 : put(at, stack, p.arena.compare(left, op, right));
}

int unary(Parse& p, int at, Stack& stack, Unary op) {
  const Node* operand = pop(p, stack);
  return operand == nullptr ? -1 : put(at, stack, p.arena.of(Kind::UnaryOp, {operand}, static_cast<int>(op)));
}

int binary(Parse& p, int at, Stack& stack) {
  const int op = p[at].arg;
  const Node* right = pop(p, stack);
  const Node* left = right != nullptr ? pop(p, stack) : nullptr;
  if (left == nullptr) return -1;
  if (op < 0 || op >= 2 * kInPlace) return wrong(p, "an operator that does not exist", at);
  if (op < kInPlace) return put(at, stack, p.arena.of(Kind::BinOp, {left, right}, op));
  Value value = Value::marker(Tag::Augmented);
  value.op = static_cast<std::uint8_t>(op - kInPlace);
  value.node = left;
  value.other = right;
  return put(at, stack, value);
}

int subscript(Parse& p, int at, Stack& stack) {
  const Node* key = pop(p, stack);
  const Node* object = key != nullptr ? pop(p, stack) : nullptr;
  return object == nullptr ? -1 : put(at, stack, p.arena.of(Kind::Subscript, {object, key}));
}

int copy(Parse& p, int at, Stack& stack) {
  const int depth = p[at].arg;
  if (!holds(stack, depth)) return wrong(p, "the stack is empty", at);
  if (depth > 1) {
    stack.push_back(Value(from_top(stack, depth)));
    return at + 1;
  }
  Value& top = stack.back();
  if (!top.is(Tag::Chain)) {
    const Node* node = top.is(Tag::Expr) || top.is(Tag::Dup) ? top.node : nullptr;
    if (top.is(Tag::Function) || top.is(Tag::Augmented)) node = expression_of(p, top);
    if (node == nullptr) return wrong(p, "a copy of what is no expression", at);
    const int place = top.place;
    top = Value::marker(Tag::Chain);
    top.node = node;
    top.place = place;
  }
  Value value = Value::marker(Tag::Dup);
  value.node = top.node;
  return put(at, stack, value);
}

int pop_top(Parse& p, int at, Stack& stack, Body* out) {
  if (stack.empty()) return wrong(p, "the stack is empty", at);
  const Value value = stack.back();
  stack.pop_back();
  switch (value.tag) {
    case Tag::WithResult:
    case Tag::Exception:
    case Tag::Nothing:
    case Tag::DroppedModule:
      return at + 1;
    case Tag::Iterator:
      if (out == nullptr) return wrong(p, "a statement", at);
      p.unwinding = Unwinding::Iterator;
      return at + 1;
    case Tag::Import: {
      const auto* import = static_cast<Import*>(value.owner);
      if (out == nullptr || import->aliases.empty()) return wrong(p, "an import without a name", at);
      Stmt* made = p.arena.statement(Stmt::Kind::ImportFrom);
      made->name = import->name;
      made->level = import->level;
      made->aliases = import->aliases;
      out->push_back(made);
      return at + 1;
    }
    case Tag::Slot:
      return wrong(p, "a value that is dropped instead of stored", at);
    default:
      break;
  }
  if (out == nullptr) return wrong(p, "a statement", at);
  const Node* node = expression_of(p, value);
  if (node == nullptr) return -1;
  out->push_back(p.arena.statement(Stmt::Kind::Expr, node));
  return at + 1;
}

int delete_target(Parse& p, int at, Stack& stack, Body* out) {
  if (out == nullptr) return wrong(p, "a statement", at);
  const Node* target = nullptr;
  if (p.is(at, Opcode::DELETE_ATTR)) {
    const Node* object = pop(p, stack);
    const Name name = p.name_at(p.unit.code()->co_names, p[at].arg);
    if (object != nullptr && name != nullptr) target = p.arena.attribute(object, name);
  } else if (p.is(at, Opcode::DELETE_SUBSCR)) {
    const Node* key = pop(p, stack);
    const Node* object = key != nullptr ? pop(p, stack) : nullptr;
    if (object != nullptr) target = p.arena.of(Kind::Subscript, {object, key});
  } else {
    target = stored_name(p, at);
  }
  if (target == nullptr) return -1;
  Stmt* made = p.arena.statement(Stmt::Kind::Delete);
  made->list = {target};
  out->push_back(made);
  return at + 1;
}

int store_target(Parse& p, int at, Stack& stack, Body* out) {
  const Node* target = nullptr;
  if (p.is(at, Opcode::STORE_ATTR)) {
    const Node* object = pop(p, stack);
    const Name name = object != nullptr ? p.name_at(p.unit.code()->co_names, p[at].arg) : nullptr;
    if (name != nullptr) target = p.arena.attribute(object, name);
  } else if (p.is(at, Opcode::STORE_SUBSCR)) {
    const Node* key = pop(p, stack);
    const Node* object = key != nullptr ? pop(p, stack) : nullptr;
    if (object != nullptr) target = p.arena.of(Kind::Subscript, {object, key});
  } else {
    target = stored_name(p, at);
  }
  return target != nullptr && pop_and_store(p, stack, target, out) ? at + 1 : -1;
}

int format_value(Parse& p, int at, Stack& stack) {
  const int arg = p[at].arg;
  const Node* spec = nullptr;
  if ((arg & 4) != 0) {
    spec = pop(p, stack);
    if (spec == nullptr) return -1;
    if (spec->kind != Kind::JoinedStr) spec = p.arena.of(Kind::JoinedStr, {spec});
  }
  const Node* value = pop(p, stack);
  if (value == nullptr) return -1;
  constexpr char kConversions[] = {0, 's', 'r', 'a'};
  const Node* formatted = p.arena.of(Kind::FormattedValue, {value, spec}, kConversions[arg & 3]);
  return put(at, stack, p.arena.of(Kind::JoinedStr, {formatted}));
}

int unpack(Parse& p, int at, Stack& stack, Body* out) {
  if (stack.empty()) return wrong(p, "the stack is empty", at);
  const int arg = p[at].arg;
  const bool starred = p.is(at, Opcode::UNPACK_EX);
  auto* unpacked = p.arena.own(Unpacked());
  unpacked->count = starred ? (arg & 255) + 1 + (arg >> 8) : arg;
  unpacked->star = starred ? arg & 255 : -1;
  if (unpacked->count < 0 || unpacked->count > kMostUnpacked) return wrong(p, "too many targets", at);
  unpacked->value = stack.back();
  stack.pop_back();
  if (out == nullptr) return wrong(p, "a statement", at);
  unpacked->targets.resize(static_cast<std::size_t>(unpacked->count));
  if (unpacked->count == 0) {
    return store(p, stack, p.arena.of(Kind::Tuple, {}), unpacked->value, out) ? at + 1 : -1;
  }
  for (int k = unpacked->count - 1; k >= 0; --k) {
    Value slot = Value::marker(Tag::Slot, unpacked);
    slot.number = k;
    stack.push_back(slot);
  }
  return at + 1;
}

int import_name(Parse& p, int at, Stack& stack) {
  const Node* names = pop(p, stack);
  const Node* level = names != nullptr ? pop(p, stack) : nullptr;
  const Name name = level != nullptr ? p.name_at(p.unit.code()->co_names, p[at].arg) : nullptr;
  if (name == nullptr) return -1;
  if (level->kind != Kind::Constant || !PyLong_CheckExact(level->object)) return wrong(p, "an import of no level", at);
  const long number = PyLong_AsLong(level->object);
  PyErr_Clear();
  if (number < 0 || number > 1000) return wrong(p, "an import of no level", at);
  return put(at, stack, Value::marker(Tag::Import, p.arena.own(Import{name, static_cast<int>(number), names, {}})));
}

int import_from(Parse& p, int at, Stack& stack) {
  const Name name = p.name_at(p.unit.code()->co_names, p[at].arg);
  if (stack.empty() || name == nullptr) return wrong(p, "an import of no module", at);
  const Value top = stack.back();
  const auto* import = top.is(Tag::Import) ? static_cast<Import*>(top.owner) : nullptr;
  if (import != nullptr && is_none(import->names)) {  // import a.b as c
    stack.back() = Value::marker(Tag::DroppedModule);
    Value value = Value::marker(Tag::ModuleAttribute);
    value.name = import->name;
    return put(at, stack, value);
  }
  if (top.is(Tag::ModuleAttribute)) {
    stack.back() = Value::marker(Tag::DroppedModule);
    return put(at, stack, top);
  }
  if (import == nullptr) return wrong(p, "an import of no module", at);
  Value value = Value::marker(Tag::ImportFrom, top.owner);
  value.name = name;
  return put(at, stack, value);
}

int import_star(Parse& p, int at, Stack& stack, Body* out) {
  if (out == nullptr || stack.empty() || !stack.back().is(Tag::Import)) return wrong(p, "an import of no module", at);
  const auto* import = static_cast<Import*>(stack.back().owner);
  stack.pop_back();
  Stmt* made = p.arena.statement(Stmt::Kind::ImportFrom);
  made->name = import->name;
  made->level = import->level;
  made->aliases.push_back({p.arena.intern("*"), nullptr});
  out->push_back(made);
  return at + 1;
}

int pop_except(Parse& p, int at, Stack& stack, Body* out) {
  if (out == nullptr || stack.empty()) return wrong(p, "a statement", at);
  const Value value = stack.back();
  stack.pop_back();
  if (!value.is(Tag::Previous)) return wrong(p, "a handler that ends what is none", at);
  p.unwinding = Unwinding::Yes;
  // name = None; del name
  const PyObject* none = p.is(at + 1, Opcode::LOAD_CONST) ? p.constant_at(p[at + 1].arg) : nullptr;
  if (value.name == nullptr || none != Py_None || !is_store(p[at + 2].op) || !is_delete(p[at + 3].op)) return at + 1;
  const Node* stored = stored_name(p, at + 2);
  return stored != nullptr && stored->name == value.name ? at + 4 : at + 1;
}

int get_awaitable(Parse& p, int at, Stack& stack) {
  const int behind = behind_await(p, at + 1);
  if (behind < 0 || stack.empty()) return wrong(p, "an await of another form", at);
  const Value value = stack.back();
  if (value.is(Tag::WithResult) || (value.is(Tag::Expr) && (value.node->flags & kAwaited) != 0)) return behind;
  stack.pop_back();
  if (value.is(Tag::AsyncWith)) {
    stack.push_back(Value::marker(Tag::WithExit));
    stack.push_back(Value::marker(Tag::Slot, value.owner));
    stack.back().number = -1;
    return behind;
  }
  const Node* node = expression_of(p, value);
  if (node == nullptr) return -1;
  put(at, stack, p.arena.of(Kind::Await, {node}));
  return behind;
}

int yield_from(Parse& p, int at, Stack& stack) {
  const int behind = behind_await(p, at + 1);
  const Node* value = behind >= 0 ? pop(p, stack) : nullptr;
  if (value == nullptr) return -1;
  put(at, stack, p.arena.of(Kind::YieldFrom, {value}));
  return behind;
}

int load_global(Parse& p, int at, Stack& stack) {
  const Name name = p.name_at(p.unit.code()->co_names, p[at].arg >> 1);
  if (name == nullptr) return -1;
  if ((p[at].arg & 1) != 0) stack.push_back(Value::marker(Tag::Null));
  if (p.is_class || p.outer.contains(name)) p.globals.insert(name);
  return load(p, at, stack, name);
}

int load_attribute(Parse& p, int at, Stack& stack) {
  const Node* object = pop(p, stack);
  const Name name = object != nullptr ? p.name_at(p.unit.code()->co_names, p[at].arg) : nullptr;
  return name == nullptr ? -1 : put(at, stack, p.arena.attribute(object, name));
}

int load_constant(Parse& p, int at, Stack& stack) {
  PyObject* constant = p.constant_at(p[at].arg);
  if (constant == nullptr) return -1;
  if (!PyCode_Check(constant)) return put(at, stack, literal(p, constant));
  Value value = Value::marker(Tag::Code);
  value.object = constant;
  return put(at, stack, value);
}

int load_closure(Parse& p, int at, Stack& stack) {
  Value cell = Value::marker(Tag::Cell);
  cell.name = p.local(p[at].arg);
  return cell.name == nullptr ? -1 : put(at, stack, cell);
}

int wrap(Parse& p, int at, Stack& stack, Kind kind) {
  const Node* value = pop(p, stack);
  return value == nullptr ? -1 : put(at, stack, p.arena.of(kind, {value}));
}

int get_async_iterator(Parse& p, int at, Stack& stack) {
  Value value = Value::marker(Tag::AsyncIterator);
  value.node = pop(p, stack);
  return value.node == nullptr ? -1 : put(at, stack, value);
}

int get_iterator(Parse& p, int at, Stack& stack) {
  const Node* value = pop(p, stack);
  return put(at, stack, value);
}

// `*args: *Ts`: the one item of the value stands in the tuple of annotations, between their names.
bool is_star_annotation(Parse& p, int at) {
  if (p[at].arg != 1) return false;
  if (p.is(at + 1, Opcode::BUILD_TUPLE)) return true;
  PyObject* name = p.is(at + 1, Opcode::LOAD_CONST) ? p.constant_at(p[at + 1].arg) : nullptr;
  return name != nullptr && PyUnicode_CheckExact(name);
}

int star_annotation(Parse& p, int at, Stack& stack) {
  const Node* value = pop(p, stack);
  if (value == nullptr) return -1;
  stack.push_back(Value::of(p.arena.of(Kind::Starred, {value}), at));
  return at + 1;
}

// The instruction, without what is counted.
int run(Parse& p, int at, Stack& stack, Body* out) {
  const Ins& ins = p[at];
  using enum Opcode;
  switch (ins.op) {
    case LOAD_CONST:
      return load_constant(p, at, stack);
    case LOAD_FAST:
    case LOAD_DEREF:
    case LOAD_CLASSDEREF:
      return load(p, at, stack, p.local(ins.arg));
    case LOAD_NAME:
      return load(p, at, stack, p.name_at(p.unit.code()->co_names, ins.arg));
    case LOAD_GLOBAL:
      return load_global(p, at, stack);
    case LOAD_CLOSURE:
      return load_closure(p, at, stack);
    case STORE_FAST:
    case STORE_NAME:
    case STORE_GLOBAL:
    case STORE_DEREF:
    case STORE_ATTR:
    case STORE_SUBSCR:
      return store_target(p, at, stack, out);
    case DELETE_FAST:
    case DELETE_NAME:
    case DELETE_GLOBAL:
    case DELETE_DEREF:
    case DELETE_ATTR:
    case DELETE_SUBSCR:
      return delete_target(p, at, stack, out);
    case LOAD_ATTR:
      return load_attribute(p, at, stack);
    case LOAD_METHOD: {
      const int next = load_attribute(p, at, stack);
      if (next >= 0) stack.push_back(Value::marker(Tag::Self));
      return next;
    }
    case BINARY_SUBSCR:
      return subscript(p, at, stack);
    case BINARY_OP:
      return binary(p, at, stack);
    case UNARY_NOT:
      return unary(p, at, stack, Unary::Not);
    case UNARY_NEGATIVE:
      return unary(p, at, stack, Unary::Negative);
    case UNARY_POSITIVE:
      return unary(p, at, stack, Unary::Positive);
    case UNARY_INVERT:
      return unary(p, at, stack, Unary::Invert);
    case COMPARE_OP:
      if (ins.arg < 0 || ins.arg > static_cast<int>(Comparison::Ge)) return wrong(p, "no comparison", at);
      return compare(p, at, stack, static_cast<Comparison>(ins.arg));
    case IS_OP:
      return compare(p, at, stack, ins.arg != 0 ? Comparison::IsNot : Comparison::Is);
    case CONTAINS_OP:
      return compare(p, at, stack, ins.arg != 0 ? Comparison::NotIn : Comparison::In);
    case PUSH_NULL:
      return put(at, stack, Value::marker(Tag::Null));
    case KW_NAMES:  // the call looks at it
    case MAKE_CELL:
    case COPY_FREE_VARS:
    case SETUP_ANNOTATIONS:
    case NOP:
    case RESUME:
    case ASYNC_GEN_WRAP:
      return at + 1;
    case CALL:
      return step_call(p, at, stack, out);
    case CALL_FUNCTION_EX:
      return step_call_ex(p, at, stack);
    case BUILD_TUPLE:
    case BUILD_LIST:
    case BUILD_SET:
    case BUILD_MAP:
    case BUILD_CONST_KEY_MAP:
    case BUILD_STRING:
    case BUILD_SLICE:
      return step_build(p, at, stack) ? at + 1 : -1;
    case LIST_EXTEND:
    case SET_UPDATE:
    case LIST_APPEND:
    case SET_ADD:
    case MAP_ADD:
    case LIST_TO_TUPLE:
    case DICT_UPDATE:
    case DICT_MERGE:
      return step_grow(p, at, stack, out) ? at + 1 : -1;
    case FORMAT_VALUE:
      return format_value(p, at, stack);
    case SWAP:
      if (!holds(stack, ins.arg)) return wrong(p, "the stack is empty", at);
      std::swap(stack.back(), from_top(stack, ins.arg));
      return at + 1;
    case COPY:
      return copy(p, at, stack);
    case POP_TOP:
      return pop_top(p, at, stack, out);
    case RETURN_GENERATOR:
      return put(at, stack, Value::marker(Tag::Nothing));
    case YIELD_VALUE:
      return wrap(p, at, stack, Kind::Yield);
    case GET_AWAITABLE:
      return get_awaitable(p, at, stack);
    case GET_YIELD_FROM_ITER:
      return yield_from(p, at, stack);
    case GET_ITER:
      return get_iterator(p, at, stack);
    case GET_AITER:
      return get_async_iterator(p, at, stack);
    case LOAD_ASSERTION_ERROR:
      return put(at, stack, Value::marker(Tag::AssertionError));
    case LOAD_BUILD_CLASS:
      return put(at, stack, Value::marker(Tag::BuildClass));
    case MAKE_FUNCTION:
      return step_make_function(p, at, stack) ? at + 1 : -1;
    case UNPACK_SEQUENCE:
      if (is_star_annotation(p, at)) return star_annotation(p, at, stack);
      return unpack(p, at, stack, out);
    case UNPACK_EX:
      return unpack(p, at, stack, out);
    case IMPORT_NAME:
      return import_name(p, at, stack);
    case IMPORT_FROM:
      return import_from(p, at, stack);
    case IMPORT_STAR:
      return import_star(p, at, stack, out);
    case POP_EXCEPT:
      return pop_except(p, at, stack, out);
    default:
      return wrong(p, "an instruction that no template expects here", at);
  }
}

}  // namespace

Name Parse::local(int slot) {
  if (slot < 0 || slot >= py::slot_count(unit.code())) {
    fail("a variable that does not exist");
    return nullptr;
  }
  PyObject* name = py::slot_name(unit.code(), slot);
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(name, &size);
  if (text == nullptr) {
    PyErr_Clear();
    fail("a name that is no text");
    return nullptr;
  }
  return arena.intern({text, static_cast<std::size_t>(size)});
}

const Node* literal(Parse& p, PyObject* value) {
  const Deeper deeper(p.shared);
  if (!deeper.allowed()) {
    p.fail("a constant is nested too deeply");
    return nullptr;
  }
  if (PyTuple_CheckExact(value)) return literal_items(p, value, Kind::Tuple);
  if (PyFrozenSet_CheckExact(value)) {
    if (PySet_GET_SIZE(value) > 0) return literal_items(p, value, Kind::Set);
    return p.arena.of(Kind::Call, {p.arena.name(p.arena.intern("frozenset"))});
  }
  const bool plain = value == Py_None || value == Py_Ellipsis || PyBool_Check(value) || PyLong_CheckExact(value) ||
                     PyFloat_CheckExact(value) || PyComplex_CheckExact(value) || PyUnicode_CheckExact(value) ||
                     PyBytes_CheckExact(value);
  if (!plain) {
    p.fail("a constant that no literal stands for");
    return nullptr;
  }
  return p.arena.constant(value);
}

const Node* expression_of(Parse& p, const Value& value) {
  switch (value.tag) {
    case Tag::Expr:
    case Tag::Dup:
      return value.node;
    case Tag::Chain: {
      const Node* node = value.node;
      for (const Node* target : value.targets) {
        if (target->kind != Kind::Name) {
          p.fail("an assignment expression to what is no name");
          return nullptr;
        }
        node = p.arena.of(Kind::NamedExpr, {target, node});
      }
      return node;
    }
    case Tag::Function:
      return lambda_of(p, *static_cast<Function*>(value.owner));
    case Tag::Augmented:
      p.fail("an in-place operator whose result is not stored");
      return nullptr;
    default:
      p.fail("a value that is no expression");
      return nullptr;
  }
}

const Node* pop(Parse& p, Stack& stack) {
  if (stack.empty()) {
    p.fail("the stack is empty");
    return nullptr;
  }
  const Node* node = expression_of(p, stack.back());
  stack.pop_back();
  return node;
}

bool pop_many(Parse& p, Stack& stack, int count, std::vector<const Node*>& out) {
  if (count < 0 || static_cast<std::size_t>(count) > stack.size()) return p.fail("the stack is too short");
  const std::size_t first = stack.size() - static_cast<std::size_t>(count);
  out.reserve(static_cast<std::size_t>(count));
  for (std::size_t at = first; at < stack.size(); ++at) {
    out.push_back(expression_of(p, stack[at]));
    if (out.back() == nullptr) return false;
  }
  stack.resize(first);
  return true;
}

int behind_await(Parse& p, int at) {
  const bool is = p.is(at, Opcode::LOAD_CONST) && p.is(at + 1, Opcode::SEND) && p.is(at + 2, Opcode::YIELD_VALUE) &&
                  p.is(at + 3, Opcode::JUMP_BACKWARD_NO_INTERRUPT);
  if (!is) p.fail("an await of another form", at);
  return is ? at + 4 : -1;
}

int step(Parse& p, int at, Stack& stack, Body* out) { return p.step_allowed() ? run(p, at, stack, out) : -1; }

}  // namespace pellucid::decompile
