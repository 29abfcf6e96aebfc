// The numbers of one capture: which are open, what was decided of them, and the guards that this needs.
#pragma once
#include <limits>
#include <memory>
#include <unordered_map>
#include <vector>

#include "aten/size_scope.h"
#include "base/reasons.h"
#include "guards/guard.h"
#include "region/capture.h"
#include "region/number.h"
#include "region/number_history.h"
#include "region/open_tensors.h"
#include "region/open_tuples.h"
#include "region/said_numbers.h"
#include "symbolic/operations.h"
#include "symbolic/space.h"

namespace pellucid::region {

struct Frame;
struct Region;

class Numbers final : public aten::SizeDecider {
 public:
  explicit Numbers(Region& region);
  ~Numbers();
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;

  NumberPolicy policy;
  OpenTuples tuples;
  OpenTensors tensors{*this};
  SaidNumbers said{*this};

  // `value` was read from there: what the program goes on with, the Number of that place or the value itself, which is
  // guarded then.
  py::Owned<> read(PyObject* value, const Source* source);
  // The region draws it at each call, and has it there: `least` and `most` are bounds of an int, a float is finite.
  py::Owned<> drawn(PyObject* value, const Source* source, std::int64_t least, std::int64_t most);
  // The same of a function's *args and **kwargs, which every call makes anew: so does the region.
  py::Owned<> read_rest(PyObject* container, const Source* source);
  // The value of a Number, which is a constant of the region from now on; anything else is itself. Borrowed.
  PyObject* plain(PyObject* object);
  // Only the type of a Number is looked at.
  void guard_type(PyObject* number);

  symbolic::Space& space() { return scope_->space; }
  const std::shared_ptr<aten::SizeScope>& scope() const { return scope_; }
  // The expression of a Number, int, float or bool; null when it has none: a closed Number, an int beyond 64 bits.
  const symbolic::Expr* expr_of(PyObject* object);
  // What function(*arguments) gave for the values at hand. Without an expression it is a late value; numbers may also
  // stand in a tuple among its arguments.
  py::Owned<> computed(PyObject* function, py::Owned<> arguments, py::Owned<> value, const symbolic::Expr* expr);
  bool takes_items() const;  // what item() of a tensor gives is a number of the graph, asked from where the region is
  std::string name_of(std::uint32_t symbol) const;  // where it is read; "u2": the graph gives it

  // SizeDecider, for torch's own questions too.
  bool decide(const symbolic::Expr* condition) override;  // guarded: this line relies on it
  void require(const symbolic::Expr* condition) override;
  symbolic::Value fix(const symbolic::Expr* number, const char* who) override;
  const symbolic::Expr* given_by_graph(aten::GraphGives what, symbolic::Value hint, std::int64_t least,
                                       std::int64_t most, PyObject* of) override;
  py::Owned<> elements_of(aten::GraphGives what, PyObject* fake) override;
  std::uint32_t here() override;  // names the place in the program, for decisions

  void note_refusal(const GraphBreak& stop);  // Unbacked::rethrow
  void finish();                              // the guards of all that was decided

 private:
  friend class DecisionMark;
  friend class Foresight;
  friend class OpenTensors;
  friend class SaidNumbers;
  friend class Seeds;
  friend class UnbackedHints;
  struct Symbol {
    const Source* source;  // null: the graph gives it
    const symbolic::Expr* expr;
    PathHash path;
    SeenNumber seen;
    bool must_stay_open = false;  // the program says that it changes
    bool drawn = false;           // at each call: there is nothing to guard
    bool is_input() const noexcept { return source != nullptr && !drawn; }
  };
  py::Owned<> new_number(PyObject* value);
  const symbolic::Expr* new_symbol(const symbolic::Value& hint, const Source* source, PathHash path, std::int64_t least,
                                   std::int64_t most = std::numeric_limits<std::int64_t>::max());
  void add_place(PyCodeObject* code, int offset, std::string operation);
  void settle_all();
  void note_pinned(const symbolic::Expr* condition);
  bool opens(PyObject* value, const Source* source, PathHash* path) const;
  void refuse_constant_marks();
  void hand_over_open(std::int64_t number);

  Region& region_;
  std::shared_ptr<aten::SizeScope> scope_ = std::make_shared<aten::SizeScope>();
  std::vector<PyObject*> by_source_;  // by id; of all_
  std::vector<py::Owned<>> all_;
  std::vector<Symbol> symbols_;
  std::vector<guards::Why> places_;
  std::vector<std::uint32_t> pinned_;  // symbols that decisions have left one value, in their order
  std::size_t closed_ = 0;             // how many Numbers have become their values
  bool settling_ = false;
};

// Whether code of torch asks for a number of a tensor which it computes with, as its optimizers do.
bool asks_to_compute(const Frame* frame);

// What is decided in a call that nothing comes of is none of the region's, which ends before it. A Number that has
// become its value meanwhile stays that: then nothing is taken back.
class DecisionMark {
 public:
  explicit DecisionMark(const Numbers& numbers)
      : decisions_(numbers.scope_->space.mark()), pinned_(numbers.pinned_.size()), closed_(numbers.closed_) {}
  void take_back(Numbers& numbers) const;  // what was decided since

 private:
  std::size_t decisions_, pinned_, closed_;
};

// For whoever asks an object's type alone: the value of a Number, anything else is itself. Borrowed.
inline PyObject* of_same_type(Numbers& numbers, PyObject* object) {
  if (is_number(object)) numbers.guard_type(object);
  return value_at_hand(object);
}

// Whether it is open, and the graph may take it as it is.
inline bool enters_graph(const NumberPolicy& policy, PyObject* object) noexcept {
  return is_open(object) && (policy.graph_numbers == GraphNumbers::All ||
                             (policy.graph_numbers == GraphNumbers::Ints && as_number(object)->as_symbol));
}

}  // namespace pellucid::region
