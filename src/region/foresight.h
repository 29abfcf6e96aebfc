// Decisions by numbers that the graph computes of single elements in the CPU's memory. What the program has computed of
// tensors from outside by few small operators is computed ahead of the graph, at each call, by the guards of the
// region: it does not end where the program goes by such a number. The graph computes all of it as before.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "aten/replay.h"
#include "guards/foresight.h"
#include "region/capture.h"

namespace pellucid::region {

struct Region;

class Foresight {
 public:
  explicit Foresight(Region& region) : region_(region) {}

  void note(const graph::Node* node, std::shared_ptr<const aten::RanOnFakes> ran);
  // A constructor gave `fake` for a tensor with data, which `node` makes.
  void note_made(const graph::Node* node, PyObject* fake, PyObject* real);

  // By which truth the program goes on; nothing: it is not known ahead.
  std::optional<bool> truth(PyObject* tensor);
  // What item() of a fake gives, with which the capture may go on as with a number from outside.
  std::optional<symbolic::Value> number(PyObject* fake);
  // Whether number() would, without asking for it.
  bool may_know(PyObject* fake);
  // The number that was read last is this symbol.
  void name(const symbolic::Expr* symbol);
  // What was decided by such symbols, and numbers from outside.
  void add(const symbolic::Expr* condition, guards::Why why);
  void finish();  // what was read shares no memory with what the graph writes to

 private:
  struct Read {
    std::shared_ptr<const aten::Replay> replay;
    std::size_t operators = 0;
    std::vector<const Source*> sources;
    std::vector<PyObject*> inputs;  // what lies there; they are kept
    std::string name;
    symbolic::Value value;
  };
  struct Asked {
    PyCodeObject* code;
    int offset;
    std::size_t operators;
    std::vector<const Source*> sources;
  };
  std::optional<Read> read(PyObject* fake);
  bool is_all_known() const;
  std::vector<aten::Happened> happened() const;
  bool stays_apart(const Read& read);
  bool is_steered_by_itself(const Read& read);
  void add_guard(std::shared_ptr<guards::Foresight> foresight, const std::vector<const Source*>& sources,
                 guards::Why why);

  Region& region_;
  std::unordered_map<const graph::Node*, std::shared_ptr<const aten::RanOnFakes>> ran_;
  std::optional<Read> last_;
  std::unordered_map<std::uint32_t, Read> numbers_;  // by symbol
  std::vector<Asked> asked_;
  // What was read, and what the graph had written to by then, each once.
  std::vector<std::pair<const Source*, PyObject*>> read_, written_;
  std::int64_t count_ = 0;
};

}  // namespace pellucid::region
