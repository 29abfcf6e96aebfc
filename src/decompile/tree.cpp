#include "decompile/tree.h"

#include <algorithm>
#include <functional>

namespace pellucid::decompile {

std::size_t Arena::Hash::operator()(const Node* node) const noexcept {
  std::size_t hash = static_cast<std::size_t>(node->kind) * 31 + node->op;
  const auto mix = [&](std::size_t more) { hash = (hash ^ more) * 0x9E3779B97F4A7C15ULL + (hash >> 29); };
  mix(node->flags + 256U * static_cast<std::size_t>(node->number));
  mix(reinterpret_cast<std::size_t>(node->object) ^ reinterpret_cast<std::size_t>(node->name));
  mix(reinterpret_cast<std::size_t>(node->extra));
  if (!node->ops.empty()) mix(std::hash<std::string>()(node->ops));
  for (const Node* kid : node->kids) mix(reinterpret_cast<std::size_t>(kid));
  return hash;
}

bool Arena::Equal::operator()(const Node* a, const Node* b) const noexcept {
  return a->kind == b->kind && a->op == b->op && a->flags == b->flags && a->number == b->number &&
         a->object == b->object && a->name == b->name && a->extra == b->extra && a->ops == b->ops &&
         std::equal(a->kids.begin(), a->kids.end(), b->kids.begin(), b->kids.end());
}

Name Arena::intern(std::string_view text) { return &*names_.emplace(text).first; }

void Arena::measure(Node& node) {
  int most = 0;
  for (const Node* kid : node.kids) {
    if (kid != nullptr) most = std::max(most, kid->height);
  }
  node.height = most + 1;
  highest_ = std::max(highest_, node.height);
}

const Node* Arena::make(Node node) {
  if (const auto found = known_.find(&node); found != known_.end()) return *found;
  const Node* made = fresh(std::move(node));
  known_.insert(made);
  return made;
}

const Node* Arena::fresh(Node node) {
  measure(node);
  return &nodes_.emplace_back(std::move(node));
}

List Arena::list(std::initializer_list<const Node*> items) { return list(std::vector<const Node*>(items)); }

List Arena::list(std::vector<const Node*> items) {
  return items.empty() ? List() : List(&lists_.emplace_back(std::move(items)));
}

List Arena::append(const List& list, const Node* item) {
  if (!list.is_last()) {
    std::vector<const Node*> items(list.begin(), list.end());
    items.push_back(item);
    return this->list(std::move(items));
  }
  list.items()->push_back(item);
  return List(list.items());
}

Stmt* Arena::statement(Stmt::Kind kind) {
  Stmt& made = statements_.emplace_back();
  made.kind = kind;
  return &made;
}

Stmt* Arena::statement(Stmt::Kind kind, const Node* first, const Node* second) {
  Stmt* made = statement(kind);
  made->first = first;
  made->second = second;
  return made;
}

const Node* Arena::name(Name id) {
  Node node;
  node.name = id;
  return make(std::move(node));
}

const Node* Arena::constant(PyObject* object) {
  Node node;
  node.kind = Kind::Constant;
  node.object = object;
  return make(std::move(node));
}

const Node* Arena::of(Kind kind, std::initializer_list<const Node*> kids, int op) { return of(kind, list(kids), op); }

const Node* Arena::of(Kind kind, const List& kids, int op) {
  Node node;
  node.kind = kind;
  node.op = static_cast<std::uint8_t>(op);
  node.kids = kids;
  return make(std::move(node));
}

const Node* Arena::compare(const Node* left, Comparison op, const Node* right, std::uint8_t flags) {
  Node node;
  node.kind = Kind::Compare;
  node.ops = std::string(1, static_cast<char>(op));
  node.flags = flags;
  node.kids = list({left, right});
  return make(std::move(node));
}

const Node* Arena::attribute(const Node* object, Name name) {
  Node node;
  node.kind = Kind::Attribute;
  node.name = name;
  node.kids = list({object});
  return make(std::move(node));
}

const Node* Arena::keyword(Name name, const Node* value) {
  Node node;
  node.kind = Kind::Keyword;
  node.name = name;
  node.kids = list({value});
  return make(std::move(node));
}

}  // namespace pellucid::decompile
