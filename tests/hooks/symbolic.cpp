// pellucid._core._symbolic: numbers as expressions, for property tests that compare them with Python's own and sympy's.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>

#include "expr_ref.h"
#include "hooks.h"
#include "symbolic/conditions.h"
#include "symbolic/operations.h"
#include "symbolic/print.h"
#include "symbolic/program.h"

namespace nb = nanobind;

namespace pellucid::hooks {
namespace {
using namespace symbolic;

Value value_of(nb::handle object) {
  if (PyBool_Check(object.ptr())) return Value::truth(nb::cast<bool>(object));
  if (PyFloat_Check(object.ptr())) return Value::real(nb::cast<double>(object));
  return Value::of(nb::cast<std::int64_t>(object));
}

nb::object object_of(const Value& value) {
  if (value.type == Type::Bool) return nb::bool_(value.is_true());
  if (value.type == Type::Float) return nb::float_(value.f);
  return nb::int_(value.i);
}

std::vector<Value> values_of(nb::sequence objects) {
  std::vector<Value> values;
  for (nb::handle object : objects) values.push_back(value_of(object));
  return values;
}

template <class Enum>
Enum one_of(std::initializer_list<const char*> names, const std::string& name) {
  int number = 0;
  for (const char* other : names) {
    if (name == other) return static_cast<Enum>(number);
    ++number;
  }
  throw nb::value_error(name.c_str());
}

Binary binary_of(const std::string& sign) {
  return one_of<Binary>({"+", "-", "*", "/", "//", "%", "**", "min", "max"}, sign);
}
Unary unary_of(const std::string& name) {
  return one_of<Unary>({"+", "-", "abs", "float", "int", "math.floor", "math.ceil"}, name);
}
Comparison comparison_of(const std::string& sign) {
  return one_of<Comparison>({"<", "<=", "==", "!=", ">", ">="}, sign);
}
MathFunction function_of(const std::string& name) {
#define MATH(function) #function,
  return one_of<MathFunction>(
      {
#include "symbolic/functions.def"
      },
      name);
}

nb::object result(const std::shared_ptr<Space>& space, const Expr* expr) {
  return expr != nullptr ? nb::cast(ExprRef{space, expr}) : nb::none();
}

nb::object proof_of(Proof proof) {
  if (proof == Proof::Unknown) return nb::none();
  return nb::bool_(proof == Proof::Yes);
}

class SpaceRef {
 public:
  nb::object symbol(nb::handle hint, nb::handle least, nb::handle most) {
    using Limits = std::numeric_limits<std::int64_t>;
    return ref(space_->symbol(value_of(hint), least.is_none() ? Limits::min() : nb::cast<std::int64_t>(least),
                              most.is_none() ? Limits::max() : nb::cast<std::int64_t>(most)));
  }
  nb::object constant(nb::handle value) { return ref(space_->constant(value_of(value))); }
  nb::object binary(const std::string& sign, const ExprRef& a, const ExprRef& b, Who who) {
    return ref(symbolic::binary(*space_, binary_of(sign), a.expr, b.expr, who));
  }
  nb::object unary(const std::string& name, const ExprRef& a, Who who) {
    return ref(symbolic::unary(*space_, unary_of(name), a.expr, who));
  }
  nb::object math(const std::string& name, const ExprRef& a, Who who) {
    return ref(symbolic::math(*space_, function_of(name), a.expr, who));
  }
  nb::object compare(const std::string& sign, const ExprRef& a, const ExprRef& b) {
    return ref(symbolic::compare(*space_, comparison_of(sign), a.expr, b.expr));
  }
  nb::object logical_not(const ExprRef& a) { return ref(negation(space_->nodes(), a.expr)); }
  nb::object logical_and(const ExprRef& a, const ExprRef& b) {
    return ref(conjunction(space_->nodes(), a.expr, b.expr));
  }
  nb::object logical_or(const ExprRef& a, const ExprRef& b) {
    return ref(disjunction(space_->nodes(), a.expr, b.expr));
  }
  nb::object simplify(const ExprRef& a) { return ref(space_->simplify(a.expr)); }
  nb::object prove(const ExprRef& condition) { return proof_of(space_->prove(condition.expr)); }
  bool decide(const ExprRef& condition, Who who) { return space_->decide(condition.expr, who); }
  nb::object fix(const ExprRef& expr, Who who) { return object_of(space_->fix(expr.expr, who)); }
  std::size_t mark() const { return space_->mark(); }
  void truncate(std::size_t mark) { space_->truncate(mark); }
  nb::list decisions() const {
    nb::list all;
    for (const Decision& decision : space_->decisions()) all.append(ref(decision.condition));
    return all;
  }

 private:
  nb::object ref(const Expr* expr) const { return result(space_, expr); }

  std::shared_ptr<Space> space_ = std::make_shared<Space>();
};

std::string text(const ExprRef& ref, const std::vector<std::string>& names) {
  return print(ref.expr, [&](std::uint32_t symbol) { return names.at(symbol); });
}

nb::object evaluate(const ExprRef& ref, nb::sequence values) {
  const auto value = Program({{ref.expr}}).evaluate(values_of(values).data());
  return value ? object_of(*value) : nb::none();
}

Program program_of(const std::vector<ExprRef>& conditions) {
  std::vector<const Expr*> all;
  for (const ExprRef& ref : conditions) all.push_back(ref.expr);
  return Program(all);
}

}  // namespace

void add_symbolic(nb::module_& core) {
  nb::module_ m = core.def_submodule("_symbolic");
  nb::class_<ExprRef>(m, "Expr")
      .def_prop_ro("hint", [](const ExprRef& ref) { return object_of(ref.expr->hint); })
      .def_prop_ro("id", [](const ExprRef& ref) { return ref.expr->id; })
      .def_prop_ro("is_constant", [](const ExprRef& ref) { return ref.expr->is_constant(); })
      .def("text", &text)
      .def("evaluate", &evaluate);
  nb::class_<Program>(m, "Program")
      .def("__init__",
           [](Program* self, const std::vector<ExprRef>& conditions) { new (self) Program(program_of(conditions)); })
      .def("holds", [](const Program& self, nb::sequence values) { return self.holds(values_of(values).data()); });
  nb::class_<SpaceRef>(m, "Space")
      .def(nb::init<>())
      .def("symbol", &SpaceRef::symbol, nb::arg("hint"), nb::arg("least") = nb::none(), nb::arg("most") = nb::none())
      .def("constant", &SpaceRef::constant)
      .def("binary", &SpaceRef::binary, nb::arg("sign"), nb::arg("a"), nb::arg("b"), nb::arg("who") = 0)
      .def("unary", &SpaceRef::unary, nb::arg("name"), nb::arg("a"), nb::arg("who") = 0)
      .def("math", &SpaceRef::math, nb::arg("name"), nb::arg("a"), nb::arg("who") = 0)
      .def("compare", &SpaceRef::compare)
      .def("logical_not", &SpaceRef::logical_not)
      .def("logical_and", &SpaceRef::logical_and)
      .def("logical_or", &SpaceRef::logical_or)
      .def("simplify", &SpaceRef::simplify)
      .def("prove", &SpaceRef::prove)
      .def("decide", &SpaceRef::decide, nb::arg("condition"), nb::arg("who") = 0)
      .def("fix", &SpaceRef::fix, nb::arg("expr"), nb::arg("who") = 0)
      .def("mark", &SpaceRef::mark)
      .def("truncate", &SpaceRef::truncate)
      .def("decisions", &SpaceRef::decisions);
  nb::list functions;
#define MATH(name) functions.append(#name);
#include "symbolic/functions.def"
  m.attr("FUNCTIONS") = functions;
}

}  // namespace pellucid::hooks
