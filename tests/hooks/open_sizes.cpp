// pellucid._core._aten.OpenScope: operators on fakes some of whose sizes are symbols, for the tests of the size rules.
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <set>
#include <vector>

#include "aten/aten.h"
#include "hooks.h"
#include "symbolic/integers.h"
#include "symbolic/operations.h"
#include "symbolic/print.h"

namespace nb = nanobind;

namespace pellucid::hooks {
namespace {

using symbolic::Expr;
using symbolic::Value;

// Records every decision, and who needed plain numbers.
class Recorder final : public aten::SizeDecider {
 public:
  explicit Recorder(aten::SizeScope& scope) : scope_(scope) {}
  bool decide(const Expr* condition) override { return scope_.space.decide(condition, 0); }
  void require(const Expr* condition) override { scope_.space.decide(condition, 0); }
  Value fix(const Expr* number, const char* who) override {
    fixed.emplace_back(who);
    return scope_.space.fix(number, 0);
  }
  symbolic::Who here() override { return 0; }
  const Expr* given_by_graph(aten::GraphGives, Value, std::int64_t, std::int64_t, PyObject*) override {
    return nullptr;
  }
  py::Owned<> elements_of(aten::GraphGives, PyObject*) override { return {}; }

  std::vector<std::string> fixed;

 private:
  aten::SizeScope& scope_;
};

class OpenScope {
 public:
  OpenScope() : scope_(std::make_shared<aten::SizeScope>()), recorder_(*scope_), fakes_(scope_) {
    scope_->decider = &recorder_;
  }
  ~OpenScope() { scope_->decider = nullptr; }
  OpenScope(const OpenScope&) = delete;
  OpenScope& operator=(const OpenScope&) = delete;

  // A SymInt.
  nb::object number(const std::string& name, std::int64_t hint, std::int64_t least) {
    const Expr* symbol = this->symbol(name, hint, least);
    return guarded([&] { return nb::steal(fakes_.number_of(symbol).release()); });
  }

  // `open`: a name for each open dimension; dimensions of one name are one symbol. The strides of a dense tensor are
  // products of its sizes, others are what they are.
  nb::object fake_of(nb::handle real, const std::map<std::size_t, std::string>& open) {
    const aten::Meta meta = guarded([&] { return aten::meta_of(real.ptr()); });
    if (open.empty()) return guarded([&] { return nb::steal(fakes_.fake_of(real.ptr()).release()); });
    aten::OpenShape shape;
    for (std::size_t d = 0; d < meta.sizes.size(); ++d) {
      const auto name = open.find(d);
      shape.sizes.push_back(name == open.end() ? constant(meta.sizes[d]) : symbol(name->second, meta.sizes[d]));
    }
    shape.strides = strides_of(meta, shape.sizes);
    return guarded([&] { return nb::steal(fakes_.fake_of(real.ptr(), &shape).release()); });
  }

  nb::object call(const nb::object& callable, const nb::args& args, const nb::kwargs& kwargs) {
    return call_in(fakes_, callable, args, kwargs);
  }

  // Of a SymInt, SymFloat, SymBool or a plain number, by what is decided so far.
  std::string text(nb::handle number) {
    const Expr* expr = fakes_.expr_of(number.ptr());
    return expr == nullptr ? nb::cast<std::string>(nb::str(number)) : print(scope_->space.simplify(expr));
  }
  nb::list decisions() {
    nb::list all;
    for (const symbolic::Decision& decision : scope_->space.decisions()) all.append(print(decision.condition).c_str());
    return all;
  }
  std::vector<std::string> fixed() { return recorder_.fixed; }
  std::map<std::string, std::int64_t> symbols() { return hints_; }

 private:
  const Expr* constant(std::int64_t number) { return scope_->space.constant(Value::of(number)); }

  const Expr* symbol(const std::string& name, std::int64_t hint, std::int64_t least = 2) {
    const auto [it, fresh] = symbols_.try_emplace(name, nullptr);
    if (fresh) {
      it->second = scope_->space.symbol(Value::of(hint), least);
      names_.push_back(name);
      hints_[name] = hint;
    }
    if (it->second->hint.i != hint) throw nb::value_error("one symbol of two sizes");
    return it->second;
  }

  std::vector<const Expr*> strides_of(const aten::Meta& meta, const std::vector<const Expr*>& sizes) {
    std::vector<std::size_t> order(sizes.size());
    std::iota(order.rbegin(), order.rend(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t d) { return meta.strides[d]; });
    std::vector<const Expr*> strides;
    for (const std::int64_t stride : meta.strides) strides.push_back(constant(stride));
    for (std::size_t i = 1; i < order.size(); ++i) {
      const std::size_t inner = order[i - 1], outer = order[i];
      if (meta.strides[inner] != 0 && meta.sizes[inner] * meta.strides[inner] == meta.strides[outer])
        strides[outer] = symbolic::product_of(scope_->space.nodes(), sizes[inner], strides[inner]);
    }
    return strides;
  }

  std::string print(const Expr* expr) {
    return symbolic::print(expr, [&](std::uint32_t i) { return names_.at(i); });
  }

  std::shared_ptr<aten::SizeScope> scope_;
  Recorder recorder_;
  aten::FakeScope fakes_;
  std::map<std::string, const Expr*> symbols_;
  std::map<std::string, std::int64_t> hints_;
  std::vector<std::string> names_;  // by the number of the symbol
};

}  // namespace

void add_open_sizes(nb::module_& aten) {
  nb::class_<OpenScope>(aten, "OpenScope")
      .def(nb::init<>())
      .def("number", &OpenScope::number, nb::arg("name"), nb::arg("hint"), nb::arg("least") = 0)
      .def("fake_of", &OpenScope::fake_of)
      .def("call", &OpenScope::call)
      .def("text", &OpenScope::text)
      .def("decisions", &OpenScope::decisions)
      .def("fixed", &OpenScope::fixed)
      .def("symbols", &OpenScope::symbols);
  aten.def("ops_without_size_rule", [] {
    std::map<std::string, std::int64_t> all;
    for (const auto& [name, count] : aten::ops_without_size_rule()) all[name] = count;
    return all;
  });
}

}  // namespace pellucid::hooks
