// A Plan laid out as the straight line of the emitted function: what is loaded into which local when. Printer and
// emitter read this.
#pragma once
#include <string>
#include <unordered_map>
#include <vector>

#include "base/unique_names.h"
#include "codegen/input_loader.h"
#include "codegen/loads.h"
#include "codegen/plan.h"

namespace pellucid::codegen {

struct Line {
  enum class Kind : std::uint8_t {
    Draw,   // local of the random numbers = drawer(generators…)
    Load,   // local = source
    Graph,  // outputs… = compiled(inputs…)
    Make,   // local = fresh object
    Do,     // a statement
    Return,
  } kind;
  const Source* source = nullptr;
  int fresh = -1;
  const Stmt* stmt = nullptr;
};

// Whose random numbers the region draws, and what draws them; null: none.
struct Drawing {
  std::vector<const Source*> generators;
  PyObject* drawer = nullptr;
};

class Program {
 public:
  // `call_graph`: whether there is a compiled graph to call.
  Program(const region::Capture& capture, Plan plan, bool call_graph, std::string graph_name);

  const Plan& plan() const noexcept { return plan_; }
  const std::vector<Line>& lines() const noexcept { return lines_; }
  const std::vector<const Source*>& inputs() const noexcept { return inputs_; }
  // Loads all inputs in one C call when they are many; without a function when each is loaded by instructions.
  const InputLoader& input_loader() const noexcept { return input_loader_; }
  const std::vector<graph::Node*>& outputs() const noexcept { return outputs_; }
  const Drawing& drawing() const noexcept { return drawing_; }
  const std::string& graph_name() const noexcept { return graph_name_; }
  // The only output is the value of the function and nothing else happens: it need not be named.
  bool returns_graph_output() const noexcept { return direct_; }

  // The local that holds it, or null when it is loaded or built in place.
  const std::string* local_of(const Source* source) const;
  const std::string* local_of_fresh(int index) const;
  const std::string& local_of(const graph::Node* node) const;
  // Every local but the arguments.
  const std::vector<std::string>& locals() const noexcept { return locals_; }

  Load step(const Source* source) const { return loads_.step(source); }
  // Name of the global that holds `object`; one is given when it is asked for first.
  const std::string& global_of(PyObject* object);
  const std::vector<std::pair<std::string, py::Owned<>>>& globals() const noexcept { return globals_; }

 private:
  void reserve_user_names(PyCodeObject* code);
  std::string new_local(const std::string& hint);
  bool is_worth_a_loader() const;
  void make_loader();
  void add_global(const std::string& wanted, PyObject* object);
  void count_all();
  void count(const Source* source);
  void count(const Expr& expr);
  void load_shared(const Source* source, bool always);
  void load_all(const Expr& expr, bool always);
  void load_all(const Stmt& stmt, bool always);
  void lay_out_draws(const Source* drawn);
  void lay_out_graph();
  void lay_out_rest();

  Plan plan_;
  Loads loads_;
  std::string graph_name_;
  std::vector<Line> lines_;
  std::vector<const Source*> inputs_;
  InputLoader input_loader_;
  std::vector<graph::Node*> outputs_;
  Drawing drawing_;
  bool direct_ = false;
  std::unordered_map<const Source*, int> uses_;
  std::unordered_map<const Source*, std::string> source_locals_;
  std::unordered_map<int, std::string> fresh_locals_;
  std::unordered_map<const graph::Node*, std::string> output_locals_;
  std::vector<std::string> locals_;
  UniqueNames<> locals_taken_, globals_taken_;
  std::unordered_map<PyObject*, std::string> global_names_;
  std::vector<std::pair<std::string, py::Owned<>>> globals_;
};

// The function as Python text: a text for each of its lines, empty for what is part of another one.
std::vector<std::string> texts_of(Program& program);
std::string loader_notes(Program& program);  // comments: which inputs the C function gives

}  // namespace pellucid::codegen
