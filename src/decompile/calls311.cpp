// Calls, displays, and what makes functions and classes.
#include <algorithm>

#include "decompile/parse.h"
#include "py/ref.h"

namespace pellucid::decompile {
namespace {

using Tag = Value::Tag;

constexpr std::size_t kMostPlainArguments = 30;  // with more the compiler writes no method call

bool is_plain_function(const Value& value) {
  return value.is(Tag::Function) && !has_name(static_cast<Function*>(value.owner)->code, "<lambda>");
}

// The names of the keyword arguments of the call at `at`: the instruction before it has them.
bool keywords_of(Parse& p, int at, std::vector<Name>& names) {
  if (!p.is(at - 1, Opcode::KW_NAMES)) return true;
  PyObject* given = p.constant_at(p[at - 1].arg);
  if (given == nullptr || !PyTuple_Check(given)) return p.fail("keyword names that are none", at);
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(given); ++k) {
    const Name name = p.name_at(given, static_cast<int>(k));
    if (name == nullptr) return false;
    names.push_back(name);
  }
  return true;
}

bool push(Stack& stack, const Node* node, int at) {
  if (node == nullptr) return false;
  stack.push_back(Value::of(node, at));
  return true;
}

// `@decorator` over a function or class, which is called with it.
bool decorate(Parse& p, Stack& stack, const Value& decorator, const Value& decorated) {
  const Node* node = expression_of(p, decorator);
  if (node == nullptr) return false;
  Value value = decorated;
  if (decorated.is(Tag::Function)) {
    auto* function = p.arena.own(Function(*static_cast<Function*>(decorated.owner)));
    function->decorators.insert(function->decorators.begin(), node);
    value.owner = function;
  } else {
    auto* parts = p.arena.own(ClassParts(*static_cast<ClassParts*>(decorated.owner)));
    parts->decorators.insert(parts->decorators.begin(), node);
    value.owner = parts;
  }
  stack.push_back(value);
  return true;
}

bool make_class(Parse& p, int at, Stack& stack, Function* function, const Node* name,
                std::vector<const Node*> arguments) {
  if (!is_text(name)) return p.fail("a class without a name", at);
  const char* text = PyUnicode_AsUTF8(name->object);
  if (text == nullptr) {
    PyErr_Clear();
    return p.fail("a class without a name", at);
  }
  auto* parts = p.arena.own(ClassParts{function, p.arena.intern(text), std::move(arguments), {}});
  stack.push_back(Value::marker(Tag::Class, parts));
  return true;
}

bool with_keywords(Parse& p, const std::vector<Name>& names, std::vector<const Node*>& values) {
  if (names.size() > values.size()) return p.fail("more keywords than arguments");
  const std::size_t first = values.size() - names.size();
  for (std::size_t k = 0; k < names.size(); ++k) values[first + k] = p.arena.keyword(names[k], values[first + k]);
  return true;
}

bool call(Parse& p, int at, Stack& stack, Body* out) {
  const auto count = static_cast<std::size_t>(p[at].arg);
  std::vector<Name> names;
  if (!keywords_of(p, at, names)) return false;
  if (count == 2 && stack.size() >= 4 && stack[stack.size() - 4].is(Tag::WithExit)) {  // exit(None, None, None)
    if (out == nullptr) return p.fail("a statement", at);
    stack.resize(stack.size() - 4);
    stack.push_back(Value::marker(Tag::WithResult));
    p.unwinding = Unwinding::Yes;
    return true;
  }
  if (stack.size() < count + 2) return p.fail("the stack is too short", at);
  std::vector<Value> arguments(stack.end() - static_cast<std::ptrdiff_t>(count), stack.end());
  stack.resize(stack.size() - count);
  const Value second = stack.back();
  stack.pop_back();
  const Value first = stack.back();
  stack.pop_back();
  Value called = first;
  if (first.is(Tag::Null)) {
    called = second;
  } else if (!second.is(Tag::Self)) {
    if (first.is(Tag::Function) && is_comprehension(static_cast<Function*>(first.owner)->code)) {
      const Node* iterable = second.is(Tag::AsyncIterator) ? second.node : expression_of(p, second);
      return iterable != nullptr &&
             push(stack, comprehension_of(p, *static_cast<Function*>(first.owner), iterable), at);
    }
    if (count == 0 && (is_plain_function(second) || second.is(Tag::Class))) return decorate(p, stack, first, second);
    arguments.insert(arguments.begin(), second);
  }
  if (called.is(Tag::BuildClass)) {
    if (arguments.size() < 2 || !arguments[0].is(Tag::Function)) return p.fail("a class of another form", at);
    std::vector<const Node*> values;
    for (std::size_t k = 2; k < arguments.size(); ++k) {
      values.push_back(expression_of(p, arguments[k]));
      if (values.back() == nullptr) return false;
    }
    return with_keywords(p, names, values) &&
           make_class(p, at, stack, static_cast<Function*>(arguments[0].owner), arguments[1].node, std::move(values));
  }
  if (called.is(Tag::AssertionError)) {
    if (arguments.size() != 1) return p.fail("an assert of another form", at);
    Value value = Value::marker(Tag::AssertionError);
    value.node = expression_of(p, arguments[0]);
    if (value.node == nullptr) return false;
    stack.push_back(value);
    return true;
  }
  std::vector<const Node*> kids{expression_of(p, called)};
  if (kids[0] == nullptr) return false;
  for (const Value& argument : arguments) {
    kids.push_back(expression_of(p, argument));
    if (kids.back() == nullptr) return false;
  }
  const Node* function = kids[0];
  if (first.is(Tag::Null) && function->kind == Kind::Attribute && function->kids[0]->kind == Kind::Name &&
      arguments.size() + (names.empty() ? 0 : 1) < kMostPlainArguments) {
    p.shared.imports.insert(function->kids[0]->name);
  }
  if (!with_keywords(p, names, kids)) return false;
  return push(stack, p.arena.of(Kind::Call, p.arena.list(std::move(kids))), at);
}

bool is_identifier(const Node* key) { return is_text(key) && PyUnicode_IsIdentifier(key->object) == 1; }

// `f(**{…})` as keyword arguments, where their names are some.
bool keyword_arguments(Parse& p, const Node* given, std::vector<const Node*>& kids) {
  if (given->kind != Kind::Dict) {
    kids.push_back(p.arena.keyword(nullptr, given));
    return true;
  }
  for (std::size_t k = 0; k + 1 < given->kids.size();) {
    // As many keys as there are up to the next `**`: names, or a dict.
    std::size_t end = k;
    bool names = true;
    for (; end + 1 < given->kids.size() && given->kids[end] != nullptr; end += 2) {
      names = names && is_identifier(given->kids[end]);
    }
    if (end == k) {
      kids.push_back(p.arena.keyword(nullptr, given->kids[k + 1]));
      k += 2;
    } else if (!names) {
      const std::vector<const Node*> items(given->kids.begin() + k, given->kids.begin() + end);
      kids.push_back(p.arena.keyword(nullptr, p.arena.of(Kind::Dict, p.arena.list(items))));
    } else {
      for (std::size_t at = k; at < end; at += 2) {
        const char* text = PyUnicode_AsUTF8(given->kids[at]->object);
        if (text == nullptr) return PyErr_Clear(), p.fail("a keyword that is no name");
        kids.push_back(p.arena.keyword(p.arena.intern(text), given->kids[at + 1]));
      }
    }
    k = std::max(end, k);
  }
  return true;
}

bool build_map(Parse& p, int at, Stack& stack) {
  std::vector<const Node*> items;
  if (p[at].arg < 0 || p[at].arg > (1 << 24) || !pop_many(p, stack, 2 * p[at].arg, items)) return false;
  return push(stack, p.arena.of(Kind::Dict, p.arena.list(std::move(items))), at);
}

bool build_const_key_map(Parse& p, int at, Stack& stack) {
  const Node* keys = pop(p, stack);
  std::vector<const Node*> values, items;
  if (keys == nullptr || !pop_many(p, stack, p[at].arg, values)) return false;
  if (keys->kind != Kind::Tuple || keys->kids.size() != values.size()) return p.fail("keys that do not fit", at);
  for (std::size_t k = 0; k < values.size(); ++k) {
    items.push_back(keys->kids[k]);
    items.push_back(values[k]);
  }
  return push(stack, p.arena.of(Kind::Dict, p.arena.list(std::move(items))), at);
}

bool build_string(Parse& p, int at, Stack& stack) {
  std::vector<const Node*> values, parts;
  if (!pop_many(p, stack, p[at].arg, values)) return false;
  for (const Node* value : values) {
    if (value->kind == Kind::JoinedStr) {
      parts.insert(parts.end(), value->kids.begin(), value->kids.end());
    } else if (is_text(value)) {
      parts.push_back(value);
    } else {
      return p.fail("a part of a text that is none", at);
    }
  }
  return push(stack, p.arena.of(Kind::JoinedStr, p.arena.list(std::move(parts))), at);
}

bool build_slice(Parse& p, int at, Stack& stack) {
  std::vector<const Node*> values;
  if (p[at].arg != 2 && p[at].arg != 3) return p.fail("a slice of another form", at);
  if (!pop_many(p, stack, p[at].arg, values)) return false;
  if (is_none(values[0])) values[0] = nullptr;
  if (is_none(values[1])) values[1] = nullptr;
  if (values.size() == 2) values.push_back(nullptr);
  return push(stack, p.arena.of(Kind::Slice, p.arena.list(std::move(values))), at);
}

// The display that an instruction adds to; null when there is none.
Value* display_at(Stack& stack, int depth) {
  if (depth <= 0 || static_cast<std::size_t>(depth) > stack.size()) return nullptr;
  return &stack[stack.size() - static_cast<std::size_t>(depth)];
}

void grow(Parse& p, Value& display, std::initializer_list<const Node*> items) {
  Node node;
  node.kind = display.node->kind;
  node.kids = display.node->kids;
  for (const Node* item : items) node.kids = p.arena.append(node.kids, item);
  display.node = p.arena.fresh(std::move(node));
}

bool is_sequence(const Value& value) {
  return value.is(Tag::Expr) && (value.node->kind == Kind::List || value.node->kind == Kind::Set);
}

bool extend(Parse& p, int at, Stack& stack) {
  const Node* value = pop(p, stack);
  Value* display = display_at(stack, p[at].arg);
  if (value == nullptr || display == nullptr || !is_sequence(*display)) return p.fail("no display to extend", at);
  const Kind folded = p.is(at, Opcode::LIST_EXTEND) ? Kind::Tuple : Kind::Set;
  if (value->kind == folded && p.is(at - 1, Opcode::LOAD_CONST)) {
    for (const Node* item : value->kids) grow(p, *display, {item});
  } else {
    grow(p, *display, {p.arena.of(Kind::Starred, {value})});
  }
  return true;
}

bool append(Parse& p, int at, Stack& stack, Body* out) {
  const bool pair = p.is(at, Opcode::MAP_ADD);
  const Node* value = pop(p, stack);
  const Node* key = pair && value != nullptr ? pop(p, stack) : nullptr;
  if (value == nullptr || (pair && key == nullptr)) return false;
  Value* display = display_at(stack, p[at].arg);
  if (display == nullptr) return p.fail("the stack is too short", at);
  if (!pair && is_sequence(*display)) {
    grow(p, *display, {value});
    return true;
  }
  if (pair && display->is(Tag::Expr) && display->node->kind == Kind::Dict) {
    grow(p, *display, {key, value});
    return true;
  }
  if (out == nullptr || !display->is(Tag::Container)) return p.fail("no display to add to", at);
  out->push_back(p.arena.statement(Stmt::Kind::Append, value, key));
  return true;
}

bool update(Parse& p, int at, Stack& stack) {
  const Node* value = pop(p, stack);
  Value* display = display_at(stack, p[at].arg);
  if (value == nullptr || display == nullptr || !display->is(Tag::Expr) || display->node->kind != Kind::Dict) {
    return p.fail("no dict to update", at);
  }
  bool whole = value->kind == Kind::Dict && !value->kids.empty();
  if (whole && p.is(at, Opcode::DICT_MERGE)) {
    // Names stand behind a `**`: those before it are in the dict that it is merged into.
    const List& before = display->node->kids;
    whole = whole && before.size() >= 2 && before[before.size() - 2] == nullptr;
    for (std::size_t k = 0; k + 1 < value->kids.size(); k += 2) whole = whole && is_identifier(value->kids[k]);
  }
  if (!whole) {
    grow(p, *display, {nullptr, value});
    return true;
  }
  for (std::size_t k = 0; k + 1 < value->kids.size(); k += 2) grow(p, *display, {value->kids[k], value->kids[k + 1]});
  return true;
}

bool list_to_tuple(Parse& p, int at, Stack& stack) {
  const Node* list = pop(p, stack);
  if (list == nullptr || list->kind != Kind::List) return p.fail("no list to make a tuple of", at);
  return push(stack, p.arena.of(Kind::Tuple, list->kids), at);
}

}  // namespace

int step_call(Parse& p, int at, Stack& stack, Body* out) {
  if (p[at].arg < 0) return p.fail("a call of no arguments", at), -1;
  return call(p, at, stack, out) ? at + 1 : -1;
}

int step_call_ex(Parse& p, int at, Stack& stack) {
  const bool has_keywords = (p[at].arg & 1) != 0;
  const Node* keywords = has_keywords ? pop(p, stack) : nullptr;
  if (has_keywords && keywords == nullptr) return -1;
  const int place = stack.empty() ? -1 : stack.back().place;
  const Node* positional = pop(p, stack);
  if (positional == nullptr || stack.size() < 2) return -1;
  // `f(1, 2, 3, **k)` has its arguments as one constant; others that are one were a tuple.
  const std::size_t count = positional->kids.size();
  const bool given = p.is(place, Opcode::LOAD_CONST) && count > 0 && (!has_keywords || count < 3);
  const Value called = stack.back();
  stack.pop_back();
  if (!stack.back().is(Tag::Null)) return p.fail("a call of another form", at), -1;
  stack.pop_back();
  std::vector<const Node*> kids;
  if (!given && (positional->kind == Kind::Tuple || positional->kind == Kind::List)) {
    kids.assign(positional->kids.begin(), positional->kids.end());
  } else {
    kids.push_back(p.arena.of(Kind::Starred, {positional}));
  }
  if (keywords != nullptr && !keyword_arguments(p, keywords, kids)) return -1;
  if (called.is(Tag::BuildClass)) {
    if (kids.size() < 2 || kids[0]->kind != Kind::FunctionRef) return p.fail("a class of another form", at), -1;
    auto* function = static_cast<Function*>(const_cast<void*>(kids[0]->extra));
    const Node* name = kids[1];
    kids.erase(kids.begin(), kids.begin() + 2);
    return make_class(p, at, stack, function, name, std::move(kids)) ? at + 1 : -1;
  }
  const Node* function = expression_of(p, called);
  if (function == nullptr) return -1;
  kids.insert(kids.begin(), function);
  stack.push_back(Value::of(p.arena.of(Kind::Call, p.arena.list(std::move(kids))), at));
  return at + 1;
}

bool step_build(Parse& p, int at, Stack& stack) {
  switch (p[at].op) {
    case Opcode::BUILD_MAP:
      return build_map(p, at, stack);
    case Opcode::BUILD_CONST_KEY_MAP:
      return build_const_key_map(p, at, stack);
    case Opcode::BUILD_STRING:
      return build_string(p, at, stack);
    case Opcode::BUILD_SLICE:
      return build_slice(p, at, stack);
    default:
      break;
  }
  const int count = p[at].arg;
  if (count < 0 || static_cast<std::size_t>(count) > stack.size()) return p.fail("the stack is too short", at);
  const auto first = stack.end() - count;
  if (std::any_of(first, stack.end(), [](const Value& value) { return value.is(Tag::Cell); })) {
    stack.resize(stack.size() - static_cast<std::size_t>(count));
    stack.push_back(Value::marker(Tag::Closure));
    return true;
  }
  if (count > 0 && is_plain_function(*first)) {  // class C(*bases)
    Node node;
    node.kind = Kind::FunctionRef;
    node.extra = first->owner;
    *first = Value::of(p.arena.make(std::move(node)), at);
  }
  std::vector<const Node*> items;
  if (!pop_many(p, stack, count, items)) return false;
  const Kind kind = p.is(at, Opcode::BUILD_TUPLE) ? Kind::Tuple : p.is(at, Opcode::BUILD_LIST) ? Kind::List : Kind::Set;
  return push(stack, p.arena.of(kind, p.arena.list(std::move(items))), at);
}

bool step_grow(Parse& p, int at, Stack& stack, Body* out) {
  switch (p[at].op) {
    case Opcode::LIST_EXTEND:
    case Opcode::SET_UPDATE:
      return extend(p, at, stack);
    case Opcode::LIST_TO_TUPLE:
      return list_to_tuple(p, at, stack);
    case Opcode::DICT_UPDATE:
    case Opcode::DICT_MERGE:
      return update(p, at, stack);
    default:
      return append(p, at, stack, out);
  }
}

bool step_make_function(Parse& p, int at, Stack& stack) {
  if (stack.empty() || !stack.back().is(Tag::Code)) return p.fail("a function without code", at);
  auto* function = p.arena.own(Function());
  function->code = reinterpret_cast<PyCodeObject*>(stack.back().object);
  stack.pop_back();
  const int flags = p[at].arg;
  if ((flags & 8) != 0) {
    if (stack.empty()) return p.fail("the stack is empty", at);
    stack.pop_back();
  }
  if ((flags & 4) != 0 && (function->annotations = pop(p, stack)) == nullptr) return false;
  if ((flags & 2) != 0 && (function->keyword_defaults = pop(p, stack)) == nullptr) return false;
  if ((flags & 1) != 0 && (function->defaults = pop(p, stack)) == nullptr) return false;
  Value value = Value::marker(Tag::Function, function);
  value.place = at;
  stack.push_back(value);
  return true;
}

}  // namespace pellucid::decompile
