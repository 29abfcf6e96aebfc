// Assignments: who gets a value that is stored.
#include <algorithm>

#include "decompile/parse.h"
#include "py/cpython.h"

namespace pellucid::decompile {
namespace {

using Tag = Value::Tag;

bool store_slot(Parse& p, Stack& stack, const Node* target, const Value& slot, Body* out) {
  if (slot.number < 0) {
    static_cast<Sink*>(slot.owner)->target = target;
    return true;
  }
  auto* unpacked = static_cast<Unpacked*>(slot.owner);
  const Node*& place = unpacked->targets[static_cast<std::size_t>(slot.number)];
  if (place == nullptr) ++unpacked->filled;
  place = slot.number == unpacked->star ? p.arena.of(Kind::Starred, {target}) : target;
  if (unpacked->filled < unpacked->count) return true;
  return store(p, stack, p.arena.of(Kind::Tuple, p.arena.list(unpacked->targets)), unpacked->value, out);
}

Alias alias_of(Parse& p, Name name, const Node* target) {
  const std::string first = name->substr(0, name->find('.'));
  return {name, p.arena.intern(first) == target->name ? nullptr : target->name};
}

bool store_import(Parse& p, const Node* target, const Value& value, Body& out) {
  if (target->kind != Kind::Name) return p.fail("an import into what is no name");
  Stmt* made = p.arena.statement(Stmt::Kind::Import);
  if (value.is(Tag::ModuleAttribute)) {
    made->aliases.push_back({value.name, target->name});
  } else {
    made->aliases.push_back(alias_of(p, static_cast<Import*>(value.owner)->name, target));
  }
  out.push_back(made);
  return true;
}

bool store_named(Parse& p, const Node* target, const Value& value, Body& out) {
  if (target->kind != Kind::Name) return p.fail("a definition that is stored in what is no name");
  Stmt* made = nullptr;
  Name name = nullptr;
  if (value.is(Tag::Class)) {
    const auto& parts = *static_cast<ClassParts*>(value.owner);
    made = class_statement(p, parts);
    name = parts.name;
  } else {
    made = function_statement(p, *static_cast<Function*>(value.owner));
    if (made != nullptr) name = made->name;
  }
  if (made == nullptr) return false;
  if (name != target->name) {
    const std::string& stored = *target->name;
    const bool mangled = stored.size() > name->size() && stored.starts_with('_') && stored.ends_with(*name);
    if (!mangled) return p.fail("a definition that is stored under another name");
  }
  out.push_back(made);
  return true;
}

bool store_together(Parse& p, const Node* target, const Value& value, bool more, Body& out) {
  p.waiting.emplace_back(target, value);
  if (more) return true;
  std::stable_sort(p.waiting.begin(), p.waiting.end(),
                   [](const auto& a, const auto& b) { return a.second.place < b.second.place; });
  std::vector<const Node*> targets, values;
  for (const auto& [to, from] : p.waiting) {
    targets.push_back(to);
    values.push_back(expression_of(p, from));
    if (values.back() == nullptr) return false;
  }
  p.waiting.clear();
  Stmt* made = p.arena.statement(Stmt::Kind::Assign, p.arena.of(Kind::Tuple, p.arena.list(std::move(values))));
  made->list = {p.arena.of(Kind::Tuple, p.arena.list(std::move(targets)))};
  out.push_back(made);
  return true;
}

}  // namespace

const Node* stored_name(Parse& p, int at) {
  using enum Opcode;
  const Ins& ins = p[at];
  PyCodeObject* code = p.unit.code();
  const bool slot = ins.op == STORE_FAST || ins.op == DELETE_FAST || ins.op == STORE_DEREF || ins.op == DELETE_DEREF;
  const Name name = slot ? p.local(ins.arg) : p.name_at(code->co_names, ins.arg);
  if (name == nullptr) return nullptr;
  if (ins.op == STORE_GLOBAL || ins.op == DELETE_GLOBAL) p.globals.insert(name);
  if ((ins.op == STORE_DEREF || ins.op == DELETE_DEREF) && ins.arg >= py::first_free_slot(code))
    p.nonlocals.insert(name);
  return p.arena.name(name);
}

bool store(Parse& p, Stack& stack, const Node* target, const Value& value, Body* out) {
  if (out != nullptr && !value.is(Tag::Dup) && !value.is(Tag::Slot)) {
    // a, b = x, y: the values stand on the stack, and their stores come in turn.
    const bool more = stack.size() > p.base && stack.back().is(Tag::Expr);
    if (!p.waiting.empty() || (more && value.is(Tag::Expr))) return store_together(p, target, value, more, *out);
  }
  switch (value.tag) {
    case Tag::Dup:  // the value below is stored here too
      if (stack.empty() || !stack.back().is(Tag::Chain)) return p.fail("a copy that is stored elsewhere");
      stack.back().targets = p.arena.append(stack.back().targets, target);
      return true;
    case Tag::Slot:
      return store_slot(p, stack, target, value, out);
    case Tag::ImportFrom: {
      if (out == nullptr) return p.fail("a statement");
      if (target->kind != Kind::Name) return p.fail("an import into what is no name");
      static_cast<Import*>(value.owner)
          ->aliases.push_back({value.name, target->name == value.name ? nullptr : target->name});
      return true;
    }
    default:
      break;
  }
  if (out == nullptr) return p.fail("a statement");
  switch (value.tag) {
    case Tag::ModuleAttribute:
    case Tag::Import:
      return store_import(p, target, value, *out);
    case Tag::Class:
      return store_named(p, target, value, *out);
    case Tag::Function:
      if (!has_name(static_cast<Function*>(value.owner)->code, "<lambda>")) return store_named(p, target, value, *out);
      break;
    case Tag::Augmented: {
      Stmt* made = p.arena.statement(Stmt::Kind::AugAssign, target, value.other);
      made->op = value.op;
      out->push_back(made);
      return true;
    }
    default:
      break;
  }
  Value plain = value;
  Stmt* made = p.arena.statement(Stmt::Kind::Assign);
  if (value.is(Tag::Chain)) {
    made->list.assign(value.targets.begin(), value.targets.end());
    plain.targets = List();
  }
  made->list.push_back(target);
  made->first = expression_of(p, plain);
  if (made->first == nullptr) return false;
  out->push_back(made);
  return true;
}

bool pop_and_store(Parse& p, Stack& stack, const Node* target, Body* out) {
  if (stack.empty()) return p.fail("the stack is empty");
  const Value value = stack.back();
  stack.pop_back();
  return store(p, stack, target, value, out);
}

}  // namespace pellucid::decompile
