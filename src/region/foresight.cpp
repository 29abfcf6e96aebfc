#include "region/foresight.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "region/node_tensors.h"
#include "region/objects.h"
#include "region/region.h"

namespace pellucid::region {

void Foresight::note(const graph::Node* node, std::shared_ptr<const aten::RanOnFakes> ran) {
  if (ran != nullptr) ran_[node] = std::move(ran);
}

void Foresight::note_made(const graph::Node* node, PyObject* fake, PyObject* real) {
  note(node, aten::made_of_constants(fake, real));
}

namespace {

bool is_tensor(PyObject* object) { return object != nullptr && aten::is_tensor(object); }

// Numbers of the region that a node takes: they are others at other calls.
bool takes_numbers(const graph::Node& node) {
  bool any = false;
  graph::for_each_input(node, [&](const graph::Node* input) {
    bool holds_tensor = false;
    each_tensor_of(*input, [&](PyObject*) { holds_tensor = true; });
    any |= !holds_tensor;
  });
  return any;
}

}  // namespace

// Whether what the graph does is all that has been done to tensors since the region began.
bool Foresight::is_all_known() const {
  Capture& capture = *region_.capture;
  if (!capture.bodies->empty() || !region_.audits.empty()) return false;
  if (region_.numbers.policy.is_last || aten::in_function_transform() || aten::in_mode_of_user()) return false;
  if (region_.recorder.wrappers.any() || !region_.recorder.arrays.storages.empty() ||
      region_.recorder.arrays.is_written)
    return false;
  for (const auto& [placeholder, tensor] : capture.input_of) {
    if (!is_atom(cat_of(tensor)) && !aten::is_plain_tensor(tensor)) return false;
  }
  return region_.draws.calls_only_torch();
}

std::vector<aten::Happened> Foresight::happened() const {
  std::vector<aten::Happened> all;
  for (const graph::Node* node : region_.capture->graph.nodes()) {
    aten::Happened& one = all.emplace_back();
    const auto ran = ran_.find(node);
    one.ran = ran == ran_.end() ? nullptr : ran->second.get();
    one.written = &node->written;
    one.takes_numbers = takes_numbers(*node);
    if (!node->impure) continue;
    each_tensor_taken(*node, [&](PyObject* tensor) {
      if (aten::is_fake(tensor)) one.may_write.push_back(tensor);
    });
  }
  return all;
}

// The graph may have written to memory of an input by another of its inputs.
bool Foresight::stays_apart(const Read& read) {
  Capture& capture = *region_.capture;
  std::unordered_set<const void*> storages;
  for (const graph::Node* node : capture.graph.nodes()) {
    each_storage_written(*node, [&](const void* storage) { storages.insert(storage); });
  }
  auto reads = read_, writes = written_;
  const auto add = [](auto& list, const Source* source, PyObject* tensor) {
    if (std::ranges::none_of(list, [&](const auto& one) { return one.second == tensor; }))
      list.emplace_back(source, tensor);
  };
  const auto add_written = [&](const graph::Node* node) {
    PyObject* example = node->example_value.get();
    if (!is_tensor(example) || !storages.contains(aten::meta_of(example).storage)) return;
    PyObject* tensor = node->op == graph::Op::GetAttr ? node->attribute.get() : capture.input_of.at(node);
    if (tensor == nullptr) return;
    const Source* source = region_.provenance.source_of(tensor);
    add(writes, source == nullptr ? capture.sources.constant(tensor) : source, tensor);
  };
  for (const graph::Node* node : capture.graph.placeholders()) {
    if (capture.input_of.contains(node)) add_written(node);
  }
  for (const graph::Node* node : capture.graph.nodes()) {
    if (node->op == graph::Op::GetAttr) add_written(node);
  }
  for (std::size_t i = 0; i < read.sources.size(); ++i) add(reads, read.sources[i], read.inputs[i]);
  const auto tensors_of = [](const auto& list) {
    std::vector<PyObject*> tensors;
    tensors.reserve(list.size());
    for (const auto& [source, tensor] : list) tensors.push_back(tensor);
    return tensors;
  };
  if (!aten::are_apart(tensors_of(reads), tensors_of(writes))) return false;
  read_ = std::move(reads);
  written_ = std::move(writes);
  return true;
}

// A loop that goes on until what it computes says so: each number of turns would have code of its own.
bool Foresight::is_steered_by_itself(const Read& read) {
  const Frame* frame = region_.top;
  if (frame == nullptr) return true;
  const auto shares = [&](const Source* source) {
    return std::ranges::find(read.sources, source) != read.sources.end();
  };
  for (const Asked& asked : asked_) {
    if (asked.code == frame->code.get() && asked.offset == frame->at && asked.operators < read.operators &&
        std::ranges::any_of(asked.sources, shares))
      return true;
  }
  asked_.push_back({frame->code.get(), frame->at, read.operators, read.sources});
  return false;
}

std::optional<Foresight::Read> Foresight::read(PyObject* fake) {
  if (!aten::is_tensor(fake) || !aten::is_fake(fake) || !is_all_known()) return std::nullopt;
  Read made;
  std::vector<PyObject*> fakes, tensors;
  for (const graph::Node* node : region_.capture->graph.placeholders()) {
    const auto tensor = region_.capture->input_of.find(node);
    if (tensor == region_.capture->input_of.end() || !is_tensor(node->example_value.get())) continue;
    fakes.push_back(node->example_value.get());
    tensors.push_back(tensor->second);
  }
  const auto nodes = happened();
  const auto replay = aten::Replay::of(fake, nodes, fakes);
  if (!replay) return std::nullopt;
  for (const std::size_t input : replay->inputs) {
    const Source* source = region_.provenance.source_of(tensors[input]);
    if (source == nullptr) return std::nullopt;
    made.sources.push_back(source);
    made.inputs.push_back(tensors[input]);
  }
  made.replay = replay->replay;
  made.operators = replay->operators;
  const auto value = made.replay->run(made.inputs);
  if (!value) return std::nullopt;
  made.value = *value;
  const graph::Node* node = region_.recorder.node_of(fake);
  made.name = node == nullptr ? "a tensor" : node->source_text.empty() ? node->name : node->source_text;
  return made;
}

void Foresight::add_guard(std::shared_ptr<guards::Foresight> foresight, const std::vector<const Source*>& sources,
                          guards::Why why) {
  guards::Guard guard;
  guard.kind = Kind::FORESEEN;
  guard.operand = py::take(PyTuple_New(static_cast<Py_ssize_t>(sources.size())));
  for (std::size_t i = 0; i < sources.size(); ++i)
    PyTuple_SET_ITEM(guard.operand.get(), static_cast<Py_ssize_t>(i),
                     py::take(PyLong_FromLong(sources[i]->id)).release());
  guard.number = count_++;
  guard.foresight = std::move(foresight);
  guard.why = std::move(why);
  region_.capture->guards.add(std::move(guard));
}

std::optional<bool> Foresight::truth(PyObject* tensor) {
  const auto fake = region_.recorder.to_fake(tensor);
  auto found = read(fake.get());
  if (!found || is_steered_by_itself(*found) || !stays_apart(*found)) return std::nullopt;
  auto foresight = std::make_shared<guards::Foresight>();
  foresight->truth = found->value.is_true();
  guards::Foresight::Read& one = foresight->reads.emplace_back();
  one.replay = found->replay;
  one.name = found->name;
  for (std::size_t i = 0; i < found->sources.size(); ++i) one.operands.push_back(i);
  auto code = py::Owned<PyCodeObject>::share(region_.top->code.get());
  add_guard(foresight, found->sources, {std::move(code), region_.top->at, "tests the truth"});
  return foresight->truth;
}

bool Foresight::may_know(PyObject* fake) {
  const auto found = read(fake);
  return found && (found->value.type != symbolic::Type::Float || std::isfinite(found->value.f));
}

std::optional<symbolic::Value> Foresight::number(PyObject* fake) {
  auto found = read(fake);
  if (!found || (found->value.type == symbolic::Type::Float && !std::isfinite(found->value.f))) return std::nullopt;
  if (is_steered_by_itself(*found) || !stays_apart(*found)) return std::nullopt;
  found->name += ".item()";
  last_ = std::move(*found);
  return last_->value;
}

void Foresight::name(const symbolic::Expr* symbol) {
  numbers_.insert_or_assign(symbol->operation.symbol, std::move(*last_));
  last_.reset();
}

void Foresight::add(const symbolic::Expr* condition, guards::Why why) {
  auto foresight = std::make_shared<guards::Foresight>();
  foresight->condition = guards::Condition::of(condition);
  guards::Condition& asked = *foresight->condition;
  std::vector<const Source*> sources;
  const auto place_of = [&](const Source* source) {
    const auto at = std::ranges::find(sources, source);
    const auto place = static_cast<std::size_t>(at - sources.begin());
    if (at == sources.end()) sources.push_back(source);
    return place;
  };
  const auto count = static_cast<std::size_t>(
      std::ranges::count_if(asked.symbols, [&](std::uint32_t symbol) { return numbers_.contains(symbol); }));
  for (const std::uint32_t symbol : asked.symbols) {
    const auto known = numbers_.find(symbol);
    if (known == numbers_.end()) {
      const Source* source = region_.numbers.symbols_[symbol].source;
      foresight->symbols.push_back(count + place_of(source));
      asked.names.push_back(source::print(source));
      continue;
    }
    foresight->symbols.push_back(foresight->reads.size());
    guards::Foresight::Read& one = foresight->reads.emplace_back();
    one.replay = known->second.replay;
    one.name = known->second.name;
    for (const Source* source : known->second.sources) one.operands.push_back(place_of(source));
    asked.names.push_back(one.name);
  }
  add_guard(std::move(foresight), sources, std::move(why));
}

void Foresight::finish() {
  if (read_.empty() || written_.empty()) return;
  auto foresight = std::make_shared<guards::Foresight>();
  foresight->apart = read_.size();
  std::vector<const Source*> sources;
  for (const auto& [source, tensor] : read_) sources.push_back(source);
  for (const auto& [source, tensor] : written_) sources.push_back(source);
  auto code = py::Owned<PyCodeObject>::share(region_.capture->code.get());
  add_guard(std::move(foresight), sources, {std::move(code), 0, "decides by the values of tensors"});
}

}  // namespace pellucid::region
