#include "codegen/plan.h"

#include <algorithm>
#include <unordered_set>

#include "codegen/walk.h"
#include "region/number.h"
#include "region/types.h"

namespace pellucid::codegen {

Expr Expr::copy() const {
  Expr other;
  other.kind = kind;
  other.object = object.copy();
  other.source = source;
  other.node = node;
  other.index = index;
  for (const Expr& item : items) other.items.push_back(item.copy());
  return other;
}
Expr Expr::constant(PyObject* object) {
  Expr expr;
  expr.object = py::Owned<>::share(object);
  return expr;
}
Expr Expr::of(const Source* source) {
  Expr expr;
  expr.kind = Kind::Source;
  expr.source = source;
  return expr;
}
Expr Expr::of(graph::Node* node) {
  Expr expr;
  expr.kind = Kind::Output;
  expr.node = node;
  return expr;
}
Expr Expr::fresh(int index) {
  Expr expr;
  expr.kind = Kind::Fresh;
  expr.index = index;
  return expr;
}
Expr Expr::list(Kind kind, std::vector<Expr> items) {
  Expr expr;
  expr.kind = kind;
  expr.items = std::move(items);
  return expr;
}
Expr Expr::call(PyObject* callee, std::vector<Expr> arguments) {
  Expr expr = list(Kind::Call, std::move(arguments));
  expr.object = py::Owned<>::share(callee);
  return expr;
}

namespace {

using Edges = std::vector<std::vector<int>>;

void add_edges(const Expr& expr, std::vector<int>& to) {
  each(expr, [&](const Expr& part) {
    if (part.kind == Expr::Kind::Fresh) to.push_back(part.index);
  });
}

// Objects that take part in a cycle (Tarjan's strongly connected components, with a stack of its own: user structures
// may be deep).
class Cycles {
 public:
  explicit Cycles(const Edges& edges) : edges_(edges), state_(edges.size()), cyclic_(edges.size(), false) {
    for (std::size_t i = 0; i < edges.size(); ++i) {
      if (state_[i].order == 0) visit(static_cast<int>(i));
    }
  }
  bool contains(int object) const { return cyclic_[static_cast<std::size_t>(object)]; }

 private:
  struct State {
    int order = 0, low = 0;
    std::size_t next = 0;
    bool open = false;
  };
  State& at(int object) { return state_[static_cast<std::size_t>(object)]; }
  void enter(int object) {
    at(object).order = at(object).low = ++counter_;
    at(object).open = true;
    path_.push_back(object);
    component_.push_back(object);
  }
  void visit(int root) {
    enter(root);
    while (!path_.empty()) {
      const int object = path_.back();
      const auto& next = edges_[static_cast<std::size_t>(object)];
      if (at(object).next < next.size()) {
        follow(object, next[at(object).next++]);
        continue;
      }
      path_.pop_back();
      if (!path_.empty()) at(path_.back()).low = std::min(at(path_.back()).low, at(object).low);
      if (at(object).low == at(object).order) close(object);
    }
  }
  void follow(int from, int to) {
    if (to == from) cyclic_[static_cast<std::size_t>(to)] = true;
    if (at(to).order == 0) return enter(to);
    if (at(to).open) at(from).low = std::min(at(from).low, at(to).order);
  }
  void close(int object) {
    const bool many = component_.back() != object;
    for (int member = -1; member != object;) {
      member = component_.back();
      component_.pop_back();
      at(member).open = false;
      if (many) cyclic_[static_cast<std::size_t>(member)] = true;
    }
  }

  const Edges& edges_;
  std::vector<State> state_;
  std::vector<bool> cyclic_;
  std::vector<int> path_, component_;
  int counter_ = 0;
};

// Everything that an object refers to, whether it is made of it or filled with it.
Edges all_edges(const std::vector<Recipe>& recipes) {
  Edges edges(recipes.size());
  for (std::size_t i = 0; i < recipes.size(); ++i) {
    add_edges(recipes[i].make, edges[i]);
    for (const Stmt& stmt : recipes[i].fill) {
      // `fill` names the object itself as its target
      each(stmt, [&](const Expr& part) {
        if (part.kind == Expr::Kind::Fresh && part.index != static_cast<int>(i)) edges[i].push_back(part.index);
      });
      if (stmt.value.kind == Expr::Kind::Fresh && stmt.value.index == static_cast<int>(i))
        edges[i].push_back(stmt.value.index);
    }
  }
  return edges;
}

bool contains_itself(const Recipe& recipe, int id) {
  bool found = false;
  if (recipe.literal) {
    each(*recipe.literal,
         [&](const Expr& part) { found = found || (part.kind == Expr::Kind::Fresh && part.index == id); });
  }
  return found;
}

void choose_forms(std::vector<Recipe>& recipes, const Walker& walker, Plan& plan) {
  const Edges edges = all_edges(recipes);
  const Cycles cycles(edges);
  for (std::size_t i = 0; i < recipes.size(); ++i) {
    Recipe& recipe = recipes[i];
    const int id = static_cast<int>(i);
    Fresh fresh{.original = walker.objects()[i]};
    if (recipe.literal && !cycles.contains(id) && !contains_itself(recipe, id)) {
      fresh.make = std::move(*recipe.literal);
    } else {
      fresh.make = std::move(recipe.make);
      fresh.fill = std::move(recipe.fill);
    }
    plan.fresh.push_back(std::move(fresh));
  }
}

// An iterator is told where it stands once its sequence has the length that the effects give it: beyond the end it
// would begin again or be exhausted.
void place_iterators_last(Plan& plan) {
  if (plan.effects.empty()) return;
  for (Fresh& fresh : plan.fresh) {
    if (region::cat_of(fresh.original) != region::Cat::Iterator) continue;
    for (Stmt& stmt : fresh.fill) plan.effects.push_back(std::move(stmt));
    fresh.fill.clear();
  }
}

// An order in which each object is made after those that it is made of.
void order_objects(Plan& plan) {
  enum class Mark : std::uint8_t { New, Open, Done };
  std::vector<Mark> marks(plan.fresh.size(), Mark::New);
  Edges edges(plan.fresh.size());
  for (std::size_t i = 0; i < plan.fresh.size(); ++i) add_edges(plan.fresh[i].make, edges[i]);
  std::vector<std::pair<int, std::size_t>> path;
  for (std::size_t root = 0; root < plan.fresh.size(); ++root) {
    if (marks[root] != Mark::New) continue;
    path.emplace_back(static_cast<int>(root), 0);
    marks[root] = Mark::Open;
    while (!path.empty()) {
      auto& [object, next] = path.back();
      const auto at = static_cast<std::size_t>(object);
      if (next == edges[at].size()) {
        marks[at] = Mark::Done;
        plan.order.push_back(object);
        path.pop_back();
        continue;
      }
      const int to = edges[at][next++];
      Mark& mark = marks[static_cast<std::size_t>(to)];
      if (mark == Mark::Open) cannot_reconstruct(plan.fresh[at].original, "it contains itself");
      if (mark == Mark::New) {
        mark = Mark::Open;
        path.emplace_back(to, 0);
      }
    }
  }
}

constexpr int kMaxNesting = 40;  // of objects built in place: deeper ones go through a local

void choose_locals(Plan& plan) {
  const auto count = [&](const Expr& part) {
    if (part.kind == Expr::Kind::Fresh) ++plan.fresh[static_cast<std::size_t>(part.index)].uses;
  };
  for (const Fresh& fresh : plan.fresh) {
    each(fresh.make, count);
    for (const Stmt& stmt : fresh.fill) each(stmt, count);
  }
  for (const Stmt& stmt : plan.effects) each(stmt, count);
  each(plan.result, count);
  std::vector<int> nesting(plan.fresh.size(), 0);
  for (int id : plan.order) {
    Fresh& fresh = plan.fresh[static_cast<std::size_t>(id)];
    int& depth = nesting[static_cast<std::size_t>(id)];
    each(fresh.make, [&](const Expr& part) {
      if (part.kind == Expr::Kind::Fresh && !plan.fresh[static_cast<std::size_t>(part.index)].named) {
        depth = std::max(depth, nesting[static_cast<std::size_t>(part.index)] + 1);
      }
    });
    // A deferred call could write the memory of an input whose number is read.
    const bool reads_tensor = region::is_number(fresh.original) && region::as_number(fresh.original)->of_tensor;
    const bool comes_first = reads_tensor && !plan.effects.empty();
    fresh.named = fresh.uses != 1 || !fresh.fill.empty() || depth >= kMaxNesting || comes_first;
  }
  std::erase_if(plan.order, [&](int id) { return !plan.fresh[static_cast<std::size_t>(id)].named; });
}

// The nodes that the emitted code needs, in the order in which a reader of the result meets them.
class Outputs {
 public:
  explicit Outputs(Plan& plan) : plan_(plan), entered_(plan.fresh.size(), false) {}
  void visit(const Expr& root) {
    push(root);
    while (!open_.empty()) {
      const Expr* expr = open_.back();
      open_.pop_back();
      if (expr->kind == Expr::Kind::Output && seen_.insert(expr->node).second) plan_.outputs.push_back(expr->node);
      for (auto item = expr->items.rbegin(); item != expr->items.rend(); ++item) push(*item);
      if (expr->kind == Expr::Kind::Fresh) enter(expr->index);
    }
  }
  void visit(const Stmt& stmt) {
    visit(stmt.target);
    visit(stmt.key);
    visit(stmt.value);
  }

 private:
  void push(const Expr& expr) { open_.push_back(&expr); }
  void enter(int id) {
    const auto at = static_cast<std::size_t>(id);
    if (entered_[at]) return;
    entered_[at] = true;
    const Fresh& fresh = plan_.fresh[at];
    for (auto stmt = fresh.fill.rbegin(); stmt != fresh.fill.rend(); ++stmt) {
      push(stmt->value);
      push(stmt->key);
    }
    push(fresh.make);
  }
  Plan& plan_;
  std::vector<bool> entered_;
  std::vector<const Expr*> open_;
  std::unordered_set<graph::Node*> seen_;
};

}  // namespace

Plan make_plan(const region::Capture& capture) {
  Plan plan;
  Walker walker(capture);
  plan.result = walker.ref(capture.result.get());
  plan.effects = replay(walker);
  walker.finish();
  choose_forms(walker.recipes(), walker, plan);
  place_iterators_last(plan);
  order_objects(plan);
  choose_locals(plan);
  Outputs outputs(plan);
  outputs.visit(plan.result);
  for (const Stmt& stmt : plan.effects) outputs.visit(stmt);
  return plan;
}

}  // namespace pellucid::codegen
