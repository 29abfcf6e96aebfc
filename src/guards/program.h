// The guards of one cache entry as one flat native program.
//
// Nodes are the sources in pre-order. A *group* is a set of nodes that one number proves: all values of a dict (or of
// an instance dict) under the dict's version tag, all lookups on a class under its type version tag. Beside the nodes
// lies the *hot* program: only what must be looked at again while every number is the same. It is one straight array:
//
//   LOAD  value changed?  -> walk the node's subtree in full, continue after it
//   GROUP version moved?  -> compare each key's value in full, take the new version ("latch"), continue after it
//   checks of what can change without a version: types of instances, lengths, tensors, function parts
//
// What hangs on one root is a section. While nothing moves in a large one, a Watch stands for its ops: an array of
// words that must be what they were (watch.h); the straight program runs when one of them is another.
//
// A number proves pointers; what hangs on an unproved pointer (arguments, list items, inline values) is checked in full
// each time, because an address may be used again. Numbers are globally unique, so a latch is right for any object that
// shows it. check() may run in two threads under the GIL: it never releases it, and a nested call takes the slow way.
#pragma once
#include <memory>
#include <vector>

#include "guards/check.h"
#include "guards/guard.h"
#include "guards/hold.h"
#include "guards/hot.h"
#include "guards/watch.h"
#include "source/source.h"

namespace pellucid::guards {

class GuardProgram {
 public:
  // Takes the guards over. Objects they name are held (modules, classes, functions, constants) or watched by weak
  // references (user instances: when one dies the program is dead). `entry` is the function that is guarded: its
  // globals print as G.
  // `inputs`: sources whose values gathered() gives.
  static std::unique_ptr<GuardProgram> compile(const source::SourceTable& sources, std::vector<Guard> guards,
                                               PyFunctionObject* entry,
                                               const std::vector<const source::Source*>& inputs = {});
  GuardProgram& operator=(const GuardProgram&) = delete;

  // The same guards with latches and references of their own, for somebody else who lives as long as he likes.
  std::unique_ptr<GuardProgram> copy() const;

  // The hot path. `state` serves the checks of several programs, between which no Python code runs.
  using StateReading = aten::GlobalState::Reading;
  bool check(PyObject* const* locals, PyObject* closure, StateReading* state = nullptr) noexcept;
  // The values of `inputs` as a tuple, without reading them again. Only right after check() gave true, before any
  // Python code can run; empty when they are not known (a nested check, values that only the check held).
  py::Owned<> gathered() const noexcept;
  bool alive() const noexcept { return hold_.alive(); }  // false: an object it depends on is gone for good

  std::size_t size() const noexcept { return checks_.size(); }
  std::size_t hot_size() const noexcept { return hot_.size(); }

  // Compiled code belongs to an object that the garbage collector knows: it passes these on.
  int traverse(visitproc visit, void* arg) const { return hold_.traverse(visit, arg); }
  void clear() noexcept { hold_.clear(); }  // the program is dead afterwards

 private:
  friend class Builder;
  friend class CostMeter;
  friend class Discriminant;
  friend class GuardReport;
  friend class Implication;
  friend class Tells;
  GuardProgram() = default;
  GuardProgram(const GuardProgram&) = default;  // copy() puts right what points into the original

  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  struct Node {
    PyObject* value = nullptr;       // as last loaded; of an Attributes node: the object whose attributes they are
    PyObject* compared = nullptr;    // of an Attributes node with pairs: compared_value() at its last walk
    const Source* source = nullptr;  // of an Attributes node: its base's
    std::uint32_t parent = kNone;
    std::uint32_t checks = 0, lookups = 0, key_checks = 0, checks_end = 0;  // three ranges in checks_
    std::uint32_t group_end = 0, end = 0;  // nodes: (self, group_end) proved by the group, [group_end, end) not
    std::uint32_t load_at = kNone, checks_at = 0, checks_until = 0, lookups_at = kNone, group_at = kNone;  // in hot_
    std::uint32_t related = kNone;           // first of its links_
    std::uint32_t pairs = 0, pairs_end = 0;  // in pair_links_
    bool attributes = false;                 // stands for the instance dict of its parent
    // What a relation compares when this is the value: of an Attributes node the dict; the object itself, which is no
    // dict, stands for one that was never made.
    PyObject* compared_value(PyObject* of) const noexcept;
  };

  // What stays as it was compiled. Operands of the sources are borrowed from the hold of whoever uses them.
  struct Given {
    std::vector<Guard> guards;    // operands moved to hold_
    std::vector<Source> sources;  // copies: the table belongs to the capture
    ~Given();
  };
  // Values that only a check holds, until it ends. A copy has the room, not the values.
  struct Temporaries {
    Temporaries() = default;
    Temporaries(const Temporaries& that) { values.reserve(that.values.capacity()); }
    Temporaries& operator=(const Temporaries&) = delete;
    std::vector<py::Owned<>> values;
  };

  struct Distinct {
    std::uint32_t check = 0;
    std::vector<std::uint32_t> nodes;
    std::vector<PyObject*> values, table;
    std::vector<std::uint32_t> changed;  // positions since the last proof; capacity fixed
    bool all_changed = true;
    bool holds() noexcept;
  };
  // A value that is asked for: a node's, or a size or stride of the tensor that it is, which has no node.
  struct Wanted {
    std::uint32_t node = 0;
    const Source* layout = nullptr;
    const Source* source(const GuardProgram& program) const noexcept {
      return layout != nullptr ? layout : program.nodes_[node].source;
    }
  };
  struct Number {
    Py_ssize_t position;
    const Source* layout;
  };
  struct Conditional {
    std::uint32_t check = 0;
    std::vector<Wanted> operands;
  };
  struct Frame {
    PyObject* const* locals;
    PyObject* closure;
  };
  struct Link {
    std::uint32_t distinct, position, next;
  };
  struct Pair {
    std::uint32_t check, node, other;
    bool same;  // wanted
  };
  struct Late {
    std::uint32_t check, node;
  };
  struct Section {  // the ops of one root
    std::uint32_t begin, end;
    Watch watch;
  };

  bool run(std::uint32_t at, std::uint32_t end, const Frame& frame) noexcept;
  bool section_holds(Section& section, const Frame& frame) noexcept;
  bool walk_all(const Frame& frame) noexcept;
  bool walk(std::uint32_t node, PyObject* value, const Frame& frame) noexcept;
  bool walk_group(std::uint32_t node, const Frame& frame) noexcept;
  bool walk_group_members(std::uint32_t node, const Frame& frame) noexcept;
  bool load_and_walk(std::uint32_t node, const Frame& frame) noexcept;
  bool changed(std::uint32_t node, PyObject* value, const Frame& frame) noexcept;
  bool look_up(std::uint32_t node) noexcept;
  PyObject* load(const Node& node, const Frame& frame) noexcept;
  void note_change(const Node& node) noexcept;
  void note_pairs(std::uint32_t node) noexcept;
  void note_move(Hot& hot) noexcept;
  bool pair_holds(const Pair& pair) const noexcept;
  bool pairs_hold() noexcept;
  bool load_number(const Wanted& wanted, symbolic::Value* out) const noexcept;
  bool conditions_hold() const noexcept;
  bool relations_hold() noexcept;
  bool late_checks_hold() const noexcept;

  std::vector<Hot> hot_;
  std::vector<Section> sections_;
  std::uint32_t moves_ = 0;  // how often a latch was taken: what Watches know of hot_ is old then
  std::vector<Node> nodes_;
  std::vector<Check> checks_;  // ambient, then node by node, then relations, then late ones
  std::shared_ptr<Given> given_ = std::make_shared<Given>();
  std::vector<std::uint32_t> check_of_;  // guard number -> index in checks_
  std::vector<std::uint32_t> node_of_check_;
  std::vector<std::uint32_t> roots_;
  std::uint32_t ambient_end_ = 0;
  std::vector<Distinct> distincts_;
  std::vector<Conditional> conditionals_;
  std::vector<Link> links_;
  std::vector<Late> late_;
  std::vector<Pair> pairs_;
  std::vector<std::uint32_t> pair_links_;  // node by node: the pairs it is part of
  std::vector<std::uint32_t> inputs_;      // nodes of the inputs; of a size or stride its tensor's
  std::vector<Number> numbers_;            // which inputs are one
  Temporaries temporaries_;
  PyObject* globals_ = nullptr;     // of the entry; held
  const PyObject* home_ = nullptr;  // what messages call G; only compared, it may be gone
  Hold hold_;
  bool primed_ = false, walking_ = false;
  // Nodes with pairs whose value changed since the pairs were proved.
  static constexpr std::uint32_t kMostChanged = 8;
  std::uint32_t changed_nodes_[kMostChanged] = {};
  std::uint32_t changed_count_ = kMostChanged + 1;  // more than fit: all pairs
  bool gathers_ = false;                            // the nodes have the values of the check that just ended
};

}  // namespace pellucid::guards
