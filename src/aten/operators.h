// What the fake kernel knows of one operator, decoded once from its schema. Only for files of this room that include
// Dispatcher.h.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "aten/facts.h"
#include "aten/internal.h"

namespace c10 {
class KernelFunction;
class OperatorHandle;
struct OperatorName;
struct FunctionSchema;
struct IValue;
}  // namespace c10

namespace pellucid::aten {

enum class ArgKind : std::uint8_t { Other, Tensor, TensorList, Device };

struct ArgFact {
  ArgKind kind = ArgKind::Other;
  bool written = false;
};

// How fakes of this operator are computed.
enum class Plan : std::uint8_t {
  NeedsData,   // the result depends on values: refused
  Meta,        // torch's own C++ meta kernel, on twins
  Decompose,   // torch's own C++ composite kernel, on the fakes themselves
  PythonMeta,  // the Python meta function, on twins: slow, counted
  OwnFake,     // what the program registered of its operator's shapes, on the fakes themselves: what it computes of
               // open sizes stays open, what it decides by them is guarded, what it makes of sizes alone is a fake
  OnlyWrites,  // of the program, and gives nothing: sizes stay what they are, as torch asks of all such operators
  Missing,
};

class Call;
class SizeCall;
using SizeRule = bool (*)(SizeCall&);
using Rule = bool (*)(Call&);  // false: this case is not covered, go on with the plan without the rule

struct Operator {
  explicit Operator(const c10::OperatorHandle& handle);
  ~Operator();

  const std::string name;  // "add.Tensor"
  std::vector<ArgFact> args;
  std::vector<std::int8_t> returned_arg;  // per return: the written argument it is, or -1
  bool writes = false;
  bool reshapes = false;  // what it writes may get another shape
  bool takes_tensors = false;
  bool takes_sizes = false;  // numbers that may be open
  bool is_view = false;
  bool random = false;
  bool strides_freely = false;  // as_strided
  bool overwrites = false;      // what it writes, it does not read
  bool out = false;             // its last argument is where the result goes
  Facts facts;                  // of operators.def
  bool composite = false;       // its kernel is written in other operators, on every device
  Raises raises;
  DtypesTaken dtypes;
  std::vector<std::size_t> statistics;  // arguments written in training without the schema saying so
  int dtype = -1;                       // the argument that names the result's dtype
  int training = -1;                    // the argument that says it is training
  int dropout = -1;                     // of attention: the probability; nothing is drawn when it is 0
  Rule rule = nullptr;
  SizeRule size_rule = nullptr;   // sizes.h
  Rule unbacked_rule = nullptr;   // rules_unbacked.cpp
  Rule unstrided_rule = nullptr;  // rules_unstrided.cpp
  Rule quantised_rule = nullptr;  // rules_quantised.cpp

  Plan plan() const;  // looks the kernels up at the first call
  const c10::KernelFunction& kernel() const;

 private:
  void find_statistics(const c10::FunctionSchema& schema);
  struct Lookup;
  std::unique_ptr<Lookup> lookup_;
};

std::string operator_name(
    const c10::OperatorName& name);  // "add.Tensor"; operators of other libraries keep their namespace

// Made at the first call, lives for ever. nullptr for operators of other libraries: those may be unloaded or change
// their kernels, so they are decoded at every call.
Operator* builtin_operator(const c10::OperatorHandle& handle);
void count_without_rule(const Operator& op);
void count_without_size_rule(const Operator& op);
Rule find_rule(const std::string& name);  // rules_*.cpp; nullptr when there is none
// What operators give whose results depend on the values of tensors. False: the capture takes no such operators.
Rule find_unbacked_rule(const std::string& name);
// What operators give of sparse tensors. False: no graph takes the call.
Rule find_unstrided_rule(const std::string& name);
// The same of quantised ones.
Rule find_quantised_rule(const std::string& name);

}  // namespace pellucid::aten
