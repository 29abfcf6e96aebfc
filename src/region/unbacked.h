// Numbers that the graph gives: what item() reads, how many elements nonzero() finds. Nobody knows one before the
// operator has run ("unbacked" in torch's words); capture goes on with a symbol, whose hint stands for any value.
//
// Where the program goes by such a number, the region ends. What torch needs to be true of one is asserted by a node of
// the graph, in front of the operator that needs it. When it is not true at a call, the graph raises, what it did is
// taken back, and the call runs eagerly. When it is not true of the hints (`torch.zeros(n - 5)`, `torch._check(n ==
// x.size(0))`), the region is captured again with hints of which it is.
#pragma once
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/reasons.h"
#include "region/capture.h"
#include "region/unbacked_hints.h"
#include "symbolic/space.h"

namespace pellucid::region {

struct Region;

class Unbacked;

// Of the numbers of the graph, those that are computed ahead of it (foresight.h).
struct Ahead {
  // Whether all such numbers in it are, so that guards may decide by them.
  static bool has_all(const Unbacked& unbacked, const symbolic::Expr* expr);
  // item() of this fake comes next; null: another operator.
  static void look(Unbacked& unbacked, PyObject* fake);
  static void note_read(Unbacked& unbacked, const symbolic::Expr* symbol);
  // Whether a capture with such numbers computed ahead may go on behind this; it is wished for then.
  static bool may_know(Unbacked& unbacked, const symbolic::Expr* condition);
};

class Unbacked {
  Region& region_;

 public:
  explicit Unbacked(Region& region) : region_(region) {}

  // While one lives, it is torch that asks, and what it takes for granted can be asserted.
  class InTorch {
   public:
    explicit InTorch(Unbacked& unbacked) : unbacked_(unbacked) {
      unbacked_.in_torch_ = true;
      unbacked_.refused_.reset();
    }
    ~InTorch() { unbacked_.in_torch_ = false; }
    InTorch(const InTorch&) = delete;
    InTorch& operator=(const InTorch&) = delete;

   private:
    Unbacked& unbacked_;
  };

  UnbackedHints hints{region_};
  bool in_key = false;  // InKey

  bool any() const noexcept { return !symbols_.empty(); }
  // A drawn one is among the inputs of the graph: the region has drawn it before that.
  void add(const symbolic::Expr* symbol, bool is_drawn = false) {
    symbols_.emplace(symbol, is_drawn);
    hints.add(symbol);
    if (is_drawn) drawn_.insert(symbol);
    if (!is_drawn) Ahead::note_read(*this, symbol);
  }
  bool any_of_graph() const noexcept { return symbols_.size() > drawn_.size(); }
  // Whether the value of an expression depends on such a number.
  bool names(const symbolic::Expr* expr) const;

  // Throw GraphBreak; torch hands that on as an exception of Python, and rethrow() throws it again.
  void refuse_if_named(const symbolic::Expr* expr) {
    if (any() && names(expr)) refuse(expr);
  }
  void refuse_if_program_asks(const symbolic::Expr* condition) {
    if (any() && !in_torch_ && names(condition) && !Ahead::has_all(*this, condition)) refuse(condition);
  }
  void note_refusal(const GraphBreak& stop) { refused_ = stop; }
  bool has_refused() const noexcept { return refused_.has_value(); }
  void rethrow();

  // An expression that torch has given and no node gives yet.
  bool is_new(const symbolic::Expr* number) const;
  static py::Owned<> number_at_hint(const symbolic::Expr* number);
  // That node gives it: its Number.
  py::Owned<> give(const symbolic::Expr* number, graph::Node* node);
  // What a capture concludes of floats is so of finite ones: one that the program computes with is asserted to be that.
  // A backend that compiles may conclude something itself, so there each one is.
  void expect_finite(const symbolic::Expr* number);
  // The sizes of a tensor of the graph that no node gives yet are read of it.
  void give_sizes(PyObject* tensor);

  // `result` is what torch gave, a `number` perhaps, and its node comes next: what it needs is asserted before that.
  void check_before(PyObject* result, const symbolic::Expr* number);
  // An operator fails with these fakes: perhaps because a size stands for another one than it has to be equal to.
  void wish_for_fitting_sizes(const std::vector<PyObject*>& arguments);
  // The program says that this is so.
  void assert_that(const symbolic::Expr* condition);
  void finish();  // nothing remains that nobody asserts

 private:
  friend struct Ahead;
  [[noreturn]] void refuse(const symbolic::Expr* expr);
  void wish_for(const symbolic::Expr* condition);
  const symbolic::Expr* given_by(const symbolic::Expr* number) const;
  bool is_given(const symbolic::Expr* expr, const std::vector<const symbolic::Expr*>& soon) const;
  void note_decisions();
  void assert_known();
  void add_assertion(const symbolic::Expr* condition);
  bool ties_to_input(const symbolic::Expr* condition) const;
  graph::Arg arg_of(const symbolic::Expr* expr);
  graph::Arg applied(const char* module, const char* name, std::vector<graph::Arg> args, bool value);
  std::string text_of(const symbolic::Expr* expr) const;

  std::unordered_map<const symbolic::Expr*, bool> symbols_;  // whether a node gives it
  mutable std::unordered_map<const symbolic::Expr*, bool> names_;
  std::vector<const symbolic::Expr*> waiting_;  // to be asserted when their symbols are given
  std::unordered_set<const symbolic::Expr*> drawn_, foreseen_;
  std::unordered_map<const symbolic::Expr*, py::Owned<>> read_of_;  // symbol -> the fake that item() read
  py::Owned<> reads_;                                               // item() reads it now
  bool asserts_ = false;                                            // something that is no fact of its own
  std::unordered_set<const symbolic::Expr*> finite_;
  std::size_t noted_ = 0;  // decisions that are asserted or wait
  bool in_torch_ = false;
  std::optional<GraphBreak> refused_;
};

// While one lives, the number that is read is part of the key of a tensor, which nobody else sees.
class InKey {
 public:
  explicit InKey(Unbacked& unbacked) : unbacked_(unbacked) { unbacked_.in_key = true; }
  ~InKey() { unbacked_.in_key = false; }
  InKey(const InKey&) = delete;
  InKey& operator=(const InKey&) = delete;

 private:
  Unbacked& unbacked_;
};

}  // namespace pellucid::region
