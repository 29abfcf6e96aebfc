#include "runtime/loop_lengths.h"

#include <algorithm>

#include "bytecode/instruction.h"
#include "py/cpython.h"

namespace pellucid::runtime {
namespace {

using region::Effect;

// Whether the region ends at a branch that may lead to where it began. Where a region ends at a branch a value decides
// over it that only the graph knows. (The compiler of Python puts the test of a loop twice, before the first turn and
// behind each.)
bool may_begin_again(const frames::State& begin, const frames::Shape& end) {
  if (begin.frames.size() != end.frames.size()) return false;
  const frames::OpenFrame& first = begin.frames.back();
  const frames::Shape::Frame& last = end.frames.back();
  if (first.code() != last.code.get()) return false;
  const bytecode::DecodedCode& code = bytecode::decoded(last.code.get());
  const int index = code.index_at(last.at);
  if (index < 0 || code[index].op == bytecode::Opcode::FOR_ITER) return false;
  if (bytecode::info(code[index].op).flow != bytecode::Flow::Branch) return false;
  const int begins_at = code.index_at(first.next);
  return begins_at >= 0 && (begins_at == code[index].target || begins_at == index + 1);
}

bool grows(const Effect& effect) {
  if (effect.kind == Effect::Kind::AppendToList) return true;
  return effect.kind == Effect::Kind::SetList && PyList_GET_SIZE(effect.value.get()) != Py_SIZE(effect.target.get());
}

}  // namespace

void FilledLists::note_turn(const frames::State& begin, const region::Capture& capture) {
  if (!capture.exit || !may_begin_again(begin, *capture.exit)) return;
  const auto values = frames::values_of(begin);
  const auto names = frames::value_names(begin);
  for (const Effect& effect : capture.effects) {
    if (!grows(effect)) continue;
    const auto known = capture.source_of.find(effect.target.get());
    if (known != capture.source_of.end()) paths_.insert(region::hash_of(known->second));
    for (std::size_t i = 0; i < values.size(); ++i)  // variables of several frames may hold it
      if (values[i] == effect.target.get()) paths_.insert(region::hash_of_local(py::interned(names[i].c_str()).get()));
  }
}

bool MetLengths::meets_new(const FilledLists& filled, const region::Capture& capture) {
  if (filled.empty()) return false;
  std::uint64_t lengths = 0;
  bool asks = false;
  for (const guards::Guard& guard : capture.guards.all()) {
    if (guard.kind != guards::Kind::LENGTH || guard.source == nullptr || !filled.contains(guard.source)) continue;
    asks = true;
    lengths = region::hash_of(guard.source) * 31 + lengths * 1000003 + static_cast<std::uint64_t>(guard.number);
  }
  if (!asks) return false;
  if (met_.size() >= kMost) met_.clear();
  const bool is_new = met_.insert(lengths).second;
  new_ones_ = is_new ? new_ones_ + 1 : 0;
  if (new_ones_ > kPatience) left_ = std::int64_t{1} << std::min(new_ones_ - kPatience, kMostDoublings);
  return is_new;
}

}  // namespace pellucid::runtime
