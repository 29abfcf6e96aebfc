#include "region/unbacked.h"

#include <algorithm>
#include <limits>

#include "aten/aten.h"
#include "guards/condition.h"
#include "region/assertions.h"
#include "region/known_elements.h"
#include "region/objects.h"
#include "region/region.h"
#include "region/torch_module.h"
#include "symbolic/operations.h"
#include "symbolic/print.h"
#include "symbolic/program.h"

namespace pellucid::region {

using symbolic::Expr;
using symbolic::Op;

namespace {

template <class... Arg>
std::vector<graph::Arg> args_of(Arg... each_one) {
  std::vector<graph::Arg> args;
  (args.push_back(std::move(each_one)), ...);
  return args;
}

}  // namespace

bool Unbacked::names(const Expr* expr) const {
  if (!any()) return false;
  if (expr->is(Op::Symbol)) return symbols_.contains(expr);
  if (expr->args.empty()) return false;
  const auto known = names_.find(expr);
  if (known != names_.end()) return known->second;
  const bool found = std::ranges::any_of(expr->args, [&](const Expr* arg) { return names(arg); });
  names_.emplace(expr, found);
  return found;
}

bool Ahead::has_all(const Unbacked& unbacked, const Expr* expr) {
  if (unbacked.foreseen_.empty()) return false;
  const auto all = [&](const auto& self, const Expr* part) -> bool {
    if (part->is(Op::Symbol)) return !unbacked.symbols_.contains(part) || unbacked.foreseen_.contains(part);
    return std::ranges::all_of(part->args, [&](const Expr* arg) { return self(self, arg); });
  };
  return unbacked.names(expr) && all(all, expr);
}

void Ahead::look(Unbacked& unbacked, PyObject* fake) {
  unbacked.hints.ahead.reset();
  unbacked.reads_ = fake == nullptr ? py::Owned<>() : py::Owned<>::share(fake);
  const auto& foreseen = unbacked.hints.setup.foreseen;
  if (fake == nullptr || foreseen.empty()) return;
  const std::size_t place = place_of(*unbacked.region_.recorder.call_site());
  if (std::ranges::find(foreseen, place) != foreseen.end())
    unbacked.hints.ahead = unbacked.region_.foresight.number(fake);
}

void Ahead::note_read(Unbacked& unbacked, const Expr* symbol) {
  if (!unbacked.reads_) return;
  if (unbacked.hints.ahead) {
    unbacked.foreseen_.insert(symbol);
    unbacked.region_.foresight.name(symbol);
  }
  unbacked.read_of_.emplace(symbol, std::move(unbacked.reads_));
  unbacked.reads_ = {};
  unbacked.hints.ahead.reset();
}

bool Ahead::may_know(Unbacked& unbacked, const Expr* condition) {
  if (unbacked.in_torch_) return false;
  // A backend that compiles is told of ints what was decided by them, but not which guard has.
  const bool as_captured = unbacked.region_.numbers.policy.runs_as_captured();
  std::vector<const Expr*> asked;
  const auto collect = [&](const auto& self, const Expr* expr) -> bool {
    if (expr->is(Op::Symbol) && unbacked.symbols_.contains(expr)) {
      if (!as_captured && expr->type != symbolic::Type::Float) return false;
      const auto read = unbacked.read_of_.find(expr);
      if (read == unbacked.read_of_.end()) return false;
      if (!unbacked.foreseen_.contains(expr) && !unbacked.region_.foresight.may_know(read->second.get())) return false;
      asked.push_back(expr);
    }
    return std::ranges::all_of(expr->args, [&](const Expr* arg) { return self(self, arg); });
  };
  return collect(collect, condition) && unbacked.hints.wish_foreseen(asked);
}

std::string Unbacked::text_of(const Expr* expr) const {
  return symbolic::print(expr, [&](std::uint32_t symbol) { return region_.numbers.name_of(symbol); });
}

namespace {

// The call of the program that gives a number, as it stands there; empty: it has no such words.
std::string words_of_giver(Region& region, const Expr* symbol) {
  const graph::Node* node = node_giving(region, symbol);
  if (node == nullptr || node->where == nullptr) return {};
  return words_of_call(*node->where);
}

void collect_symbols(const Expr* expr, std::unordered_map<std::uint32_t, const Expr*>& out) {
  if (expr->is(Op::Symbol)) out.emplace(expr->operation.symbol, expr);
  for (const Expr* arg : expr->args) collect_symbols(arg, out);
}

// As text_of, but a number of the graph has the program's words for it, else it is counted in the text alone: one place
// of the program has one text, however many such numbers came before it.
std::string words_of(const Expr* expr, Region& region) {
  std::unordered_map<std::uint32_t, const Expr*> symbols;
  collect_symbols(expr, symbols);
  std::vector<std::string> seen;
  return symbolic::print(expr, [&](std::uint32_t symbol) {
    std::string name = region.numbers.name_of(symbol);
    if (!name.starts_with('u')) return name;
    if (std::string words = words_of_giver(region, symbols.at(symbol)); !words.empty()) return words;
    const auto at = std::ranges::find(seen, name);
    const auto count = at - seen.begin();
    if (at == seen.end()) seen.push_back(name);
    return "u" + std::to_string(count);
  });
}

}  // namespace

// What is needed is not so of the hints: where others are to be had, the region is captured again. Returns where not.
void Unbacked::wish_for(const Expr* condition) {
  if (!names(condition)) return;
  std::vector<const Expr*> needed = waiting_;
  const auto decisions = region_.numbers.space().decisions();
  for (const symbolic::Decision& decision : decisions.first(std::min(noted_, decisions.size()))) {
    if (names(decision.condition)) needed.push_back(decision.condition);  // later ones are of what fails
  }
  if (hints.wish_for(condition, needed)) refuse(condition);
}

void Unbacked::wish_for_fitting_sizes(const std::vector<PyObject*>& arguments) {
  if (!any() || !hints.may_wish) return;
  // Hints that fit serve other elements too; where none do, the last try goes by the elements.
  if (!hints.may_wish_again) wish_for_elements(region_);
  std::vector<const Expr*> given, other;
  symbolic::Space& space = region_.numbers.space();
  const auto add_number = [&](PyObject* object) {
    symbolic::Value value;
    if (PyLong_CheckExact(object) && guards::is_symbolic_value(object, &value)) other.push_back(space.constant(value));
  };
  for (PyObject* argument : arguments) {
    add_number(argument);
    for (Py_ssize_t i = 0; PyTuple_Check(argument) && i < PyTuple_GET_SIZE(argument); ++i)
      add_number(PyTuple_GET_ITEM(argument, i));
    each_tensor(argument, [&](PyObject* tensor) {
      if (!aten::is_fake(tensor)) return;
      const aten::OpenShape shape = region_.recorder.fakes().open_shape(tensor);
      for (const Expr* size : shape.sizes) (names(size) ? given : other).push_back(size);
      if (!shape.sizes.empty()) return;
      const auto sizes = py::take(PyObject_GetAttrString(tensor, "shape"));
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(sizes.get()); ++i) add_number(PyTuple_GET_ITEM(sizes.get(), i));
    });
  }
  for (const Expr* size : given) {
    const auto wish = [&](const Expr* one) {
      if (one->hint.i != size->hint.i && one->hint.i > 1)
        wish_for(symbolic::compare(space, symbolic::Comparison::Eq, size, one));
    };
    std::ranges::for_each(other, wish);
    std::ranges::for_each(given, wish);
  }
  wish_for_elements(region_);
}

void Unbacked::refuse(const Expr* expr) {
  if (expr->type == symbolic::Type::Int && expr->hint.i < 0) {  // a size, say
    symbolic::Space& space = region_.numbers.space();
    wish_for(symbolic::compare(space, symbolic::Comparison::Ge, expr, space.constant(symbolic::Value::of(2))));
  }
  if (any_of_graph()) wish_for_elements(region_, expr);
  const bool asks = expr->type == symbolic::Type::Bool;
  if (!any_of_graph()) {
    const GraphBreak stop(Reason::DrawnValue, {{"operation", asks ? "a branch on" : "a use of the value of"}});
    if (in_torch_) refused_ = stop;
    throw stop;
  }
  if (asks) (void)Ahead::may_know(*this, expr);
  const GraphBreak stop(Reason::DataDependent,
                        {{"operation", (asks ? "a branch on " : "a use of the value of ") + words_of(expr, region_) +
                                           ", which only the graph knows,"}});
  if (in_torch_) refused_ = stop;
  throw stop;
}

void Unbacked::rethrow() {
  if (const auto refused = std::exchange(refused_, std::nullopt)) throw GraphBreak(*refused);
}

// The symbol of a number that a node can give: itself, or what a bool is the truth of.
const Expr* Unbacked::given_by(const Expr* number) const {
  if (number->is(Op::Ne) && number->args[1]->is_constant(0)) number = number->args[0];
  if (number->is(Op::Ne) && number->args[0]->is_constant(0)) number = number->args[1];
  return number->is(Op::Symbol) && symbols_.contains(number) ? number : nullptr;
}

bool Unbacked::is_new(const Expr* number) const {
  const Expr* symbol = given_by(number);
  return symbol != nullptr && !symbols_.at(symbol);
}

py::Owned<> Unbacked::number_at_hint(const Expr* number) { return object_of(number->hint); }

py::Owned<> Unbacked::give(const Expr* number, graph::Node* node) {
  auto made = region_.numbers.said.of_node(number);
  region_.capture->node_of[made.get()] = node;
  region_.provenance.keep(made.get());
  const Expr* symbol = given_by(number);
  symbols_.at(symbol) = true;
  if (number != symbol) region_.numbers.said.note_int_of(made.get(), symbol);
  if (!region_.numbers.policy.runs_as_captured()) expect_finite(symbol);
  note_decisions();
  assert_known();
  return made;
}

void Unbacked::expect_finite(const Expr* number) {
  if (number->type != symbolic::Type::Float || !symbols_.contains(number) || !finite_.insert(number).second) return;
  symbolic::Space& space = region_.numbers.space();
  (void)space.decide(space.nodes().make(Op::Finite, number), region_.numbers.here());
  note_decisions();
  assert_known();
}

void Unbacked::give_sizes(PyObject* tensor) {
  if (!any()) return;
  const aten::OpenShape shape = region_.recorder.fakes().open_shape(tensor);
  for (std::size_t d = 0; d < shape.sizes.size(); ++d) {
    const Expr* size = shape.sizes[d];
    if (!is_new(size)) continue;
    auto args =
        args_of(graph::Arg::of(region_.recorder.node_of(tensor)), graph::Arg::of(py::take(PyLong_FromSize_t(d))));
    graph::Node* node =
        region_.capture->graph.call(graph::Op::CallMethod, py::str("size"), std::move(args), {}, number_at_hint(size));
    node->where = region_.recorder.call_site();
    const auto number = give(size, node);
  }
}

bool Unbacked::is_given(const Expr* expr, const std::vector<const Expr*>& soon) const {
  if (const auto symbol = symbols_.find(expr); symbol != symbols_.end())
    return symbol->second || std::ranges::find(soon, expr) != soon.end();
  return std::ranges::all_of(expr->args, [&](const Expr* arg) { return is_given(arg, soon); });
}

void Unbacked::note_decisions() {
  const auto decisions = region_.numbers.space().decisions();
  noted_ = std::min(noted_, decisions.size());
  for (; noted_ < decisions.size(); ++noted_) {
    const Expr* condition = decisions[noted_].condition;
    const bool is_known = condition->is(Op::Finite) && drawn_.contains(condition->args[0]);
    if (names(condition) && !is_known && !Ahead::has_all(*this, condition)) waiting_.push_back(condition);
  }
}

void Unbacked::assert_known() {
  for (std::size_t i = 0; i < waiting_.size();) {
    if (!is_given(waiting_[i], {})) {
      ++i;
      continue;
    }
    const Expr* condition = waiting_[i];
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    add_assertion(condition);
  }
}

void Unbacked::check_before(PyObject* result, const Expr* number) {
  note_decisions();
  std::vector<const Expr*> soon;
  if (const Expr* symbol = number == nullptr ? nullptr : given_by(number)) soon.push_back(symbol);
  // The operator is no part of the region, and neither is what it needs of numbers that nothing gives then.
  const auto leave_out = [&](const Expr* expr) {
    std::erase_if(waiting_, [&](const Expr* condition) { return !is_given(condition, {}); });
    refuse(expr);
  };
  each_tensor(result, [&](PyObject* tensor) {
    if (!aten::is_fake(tensor)) return;
    const aten::OpenShape shape = region_.recorder.fakes().open_shape(tensor);
    for (const Expr* size : shape.sizes) {
      if (const Expr* symbol = given_by(size)) soon.push_back(symbol);
    }
    for (const Expr* size : shape.sizes) {
      if (!is_given(size, soon)) leave_out(size);
    }
  });
  for (const Expr* condition : waiting_) {
    if (!is_given(condition, soon)) leave_out(condition);
  }
  assert_known();
}

void Unbacked::assert_that(const Expr* condition) {
  // The hint stands for any value: where it is not so of the hint, nothing can be concluded from it.
  if (condition->hint.is_true()) {
    (void)region_.numbers.space().decide(condition, region_.numbers.here());
  } else {
    wish_for(condition);
    waiting_.push_back(condition);
  }
  note_decisions();
  assert_known();
}

void Unbacked::finish() {
  if (!any()) return;
  note_decisions();
  assert_known();
  region_.capture->has_unbacked = any_of_graph() || asserts_;
  if (!waiting_.empty()) refuse(waiting_.front());
}

graph::Arg Unbacked::applied(const char* module, const char* name, std::vector<graph::Arg> args, bool value) {
  graph::Node* node = region_.capture->graph.call(graph::Op::CallFunction, py::import_attr(module, name),
                                                  std::move(args), {}, py::Owned<>::share(value ? Py_True : Py_False));
  node->where = region_.recorder.call_site();
  return graph::Arg::of(node);
}

graph::Arg Unbacked::arg_of(const Expr* expr) {
  if (expr->type != symbolic::Type::Bool) return region_.recorder.to_arg(region_.numbers.said.of(expr).get());
  if (expr->is_constant()) return graph::Arg::of(number_at_hint(expr));
  if (PyObject* known = region_.numbers.said.known(expr)) return region_.recorder.to_arg(known);
  const bool value = expr->hint.is_true();
  const auto of_all = [&](const char* name) {
    std::vector<graph::Arg> args;
    for (const Expr* arg : expr->args) args.push_back(arg_of(arg));
    return applied("operator", name, std::move(args), value);
  };
  switch (expr->op()) {
    case Op::Eq:
      return of_all("eq");
    case Op::Ne:
      return of_all("ne");
    case Op::Lt:
      return of_all("lt");
    case Op::Le:
      return of_all("le");
    case Op::And:
      return of_all("and_");
    case Op::Or:
      return of_all("or_");
    case Op::Not:
      return applied("torch", "sym_not", args_of(arg_of(expr->args[0])), value);
    case Op::Finite: {  // for other backends in words that each of them has
      if (region_.numbers.policy.runs_as_captured())
        return applied("math", "isfinite", args_of(arg_of(expr->args[0])), value);
      const auto within = [&](const char* name, double end) {
        auto bound = graph::Arg::of(py::take(PyFloat_FromDouble(end)));
        return applied("operator", name, args_of(arg_of(expr->args[0]), std::move(bound)), value);
      };
      constexpr double kMost = std::numeric_limits<double>::max();
      auto below = within("le", kMost);
      return applied("operator", "and_", args_of(std::move(below), within("ge", -kMost)), value);
    }
    default:
      refuse(expr);
  }
}

// Whether one number that the graph gives has to be what numbers among its inputs say.
bool Unbacked::ties_to_input(const Expr* condition) const {
  const auto has_input = [&](const auto& self, const Expr* expr) -> bool {
    if (expr->is(Op::Symbol)) return !symbols_.contains(expr);
    return std::ranges::any_of(expr->args, [&](const Expr* arg) { return self(self, arg); });
  };
  if (condition->is(Op::Eq)) return names(condition) && has_input(has_input, condition);
  return std::ranges::any_of(condition->args, [&](const Expr* arg) { return ties_to_input(arg); });
}

void Unbacked::add_assertion(const Expr* condition) {
  asserts_ = true;
  // A graph of torch's symbols would take the input for the number, also in the assertion itself.
  if (region_.numbers.policy.graph_numbers == GraphNumbers::Ints && ties_to_input(condition)) {
    (void)hints.wish_closed(condition);
    refuse(condition);
  }
  assert_scalar(region_, arg_of(condition), text_of(condition));
}

}  // namespace pellucid::region
