// The sizes of one capture that may be others at the next call, as expressions (room `symbolic`), and who answers for
// what is decided by them.
#pragma once
#include <unordered_map>
#include <vector>

#include "py/ref.h"
#include "symbolic/space.h"

namespace pellucid::aten {

// What the values of tensors decide: a number, or the size of a result.
enum class GraphGives : std::uint8_t { Number, Size };

// Answers for decisions while the capture runs: it knows which line of the program asks.
class SizeDecider {
 public:
  // The program goes by this condition: its truth at the hints, which is guarded when it is not proved.
  virtual bool decide(const symbolic::Expr* condition) = 0;
  // What an operator does holds only where this is true; it is at the hints.
  virtual void require(const symbolic::Expr* condition) = 0;
  // `who` needs the number itself: it is what its hint is from now on.
  virtual symbolic::Value fix(const symbolic::Expr* number, const char* who) = 0;
  // Names the place in the program.
  virtual symbolic::Who here() = 0;
  // A new symbol for an int or float that an operator of the graph will give at each call, between these ends if it is
  // an int; `hint` stands for a value that nobody knows. Null: such operators are not captured. `of`: the fake whose
  // elements decide, or null.
  virtual const symbolic::Expr* given_by_graph(GraphGives what, symbolic::Value hint, std::int64_t least,
                                               std::int64_t most, PyObject* of) = 0;
  // The tensor with data that a fake stands for, where the capture goes by its elements; empty: it does not.
  virtual py::Owned<> elements_of(GraphGives what, PyObject* fake) = 0;

 protected:
  SizeDecider() = default;
  ~SizeDecider() = default;
  SizeDecider(const SizeDecider&) = default;
  SizeDecider& operator=(const SizeDecider&) = default;
};

// Tensors and numbers of torch hold it, and some of them outlive the capture: without a decider only what is proved is
// known.
struct SizeScope {
  symbolic::Space space;
  SizeDecider* decider = nullptr;
  // What the last item() of a float or bool gave: torch has no such numbers but its own. It gets the hint, and whoever
  // called torch asks for this.
  const symbolic::Expr* item = nullptr;
  // The elements that item() gave since whoever called torch asked for them: (fake, number). The capture knows them, a
  // compiler that traces the graph does not.
  std::vector<std::pair<py::Owned<>, py::Owned<>>> known_items;
  // A compiler traces the graph once more. It takes for granted that a size that depends on values is neither 0 nor 1,
  // for what is broadcast and in the backward pass.
  bool is_traced_again = false;
  // How many elements an operator finds was known to the capture so, since whoever called torch asked.
  bool has_known_sizes = false;
  // The fakes whose elements decide on symbols that the graph gives.
  std::unordered_map<const symbolic::Expr*, py::Owned<>> decided_by;
};

// The layout of a tensor, a constant where nothing is open.
struct OpenShape {
  std::vector<const symbolic::Expr*> sizes, strides;
};

}  // namespace pellucid::aten
