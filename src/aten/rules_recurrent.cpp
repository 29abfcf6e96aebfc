// Recurrent networks. torch's kernel takes one step after the other, as many as the sequence is long: its results
// depend on sizes and dtypes of one step alone, and so do not pin the length.
#include <ATen/Functions.h>
#include <ATen/autocast_mode.h>

#include <vector>

#include "aten/call.h"
#include "aten/rules.h"

namespace pellucid::aten {
namespace {

// input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first
struct Recurrent {
  at::Tensor input;  // (length, batch, features)
  at::Tensor hidden, cell;
  std::vector<at::Tensor> params;
  std::int64_t layers, directions;
  std::size_t per_layer;  // parameters of one layer in one direction
  double dropout;         // between layers
  bool has_biases, is_projected;
};

// The gates of all steps, and what one step makes of them.
struct Layer {
  std::vector<at::Tensor> outputs, hidden, cells;
};

bool fits(const at::Tensor& state, const Recurrent& of, const c10::SymInt& features) {
  return state.dim() == 3 && state.sym_size(0) == of.layers * of.directions &&
         state.sym_size(1) == of.input.sym_size(1) && state.sym_size(2) == features;
}

// False: torch's own kernel has the message.
bool run_direction(const Recurrent& of, const at::Tensor& input, std::int64_t index, std::int64_t gates, Layer& layer) {
  const at::Tensor* own = &of.params[static_cast<std::size_t>(index) * of.per_layer];
  const at::Tensor &input_weight = own[0], &hidden_weight = own[1];
  const at::Tensor input_bias = of.has_biases ? own[2] : at::Tensor(),
                   hidden_bias = of.has_biases ? own[3] : at::Tensor();
  if (input_weight.dim() != 2 || hidden_weight.dim() != 2 || input_weight.sym_size(1) != input.sym_size(2))
    return false;
  const c10::SymInt width = hidden_weight.sym_size(0) / gates;
  if (!fits(of.hidden, of, hidden_weight.sym_size(1)) || (of.cell.defined() && !fits(of.cell, of, width))) return false;
  const at::Tensor all =
      at::linear(input, input_weight, input_bias) + at::linear(of.hidden.select(0, index), hidden_weight, hidden_bias);
  at::Tensor output = all.narrow_symint(-1, 0, width);
  if (of.cell.defined()) {
    output = output + of.cell.select(0, index);
    layer.cells.push_back(output.select(0, 0));
  }
  if (of.is_projected) output = at::linear(output, own[of.per_layer - 1]);
  layer.hidden.push_back(output.select(0, 0));
  layer.outputs.push_back(std::move(output));
  return true;
}

template <std::int64_t gates, bool has_cell>
bool recurrent(Call& call) {
  const bool batch_first = call.arg(8).toBool(), train = call.arg(6).toBool(), both = call.arg(7).toBool();
  // Under autocast the dtypes are those of the kernel that torch chooses.
  if (call.tensor(0).dim() != 3 || at::autocast::is_autocast_enabled(call.device.type())) return false;
  Recurrent of{.input = batch_first ? call.tensor(0).transpose(0, 1) : call.tensor(0),
               .hidden = has_cell ? at::Tensor() : call.tensor(1),
               .cell = {},
               .params = call.arg(2).toTensorVector(),
               .layers = call.arg(4).toInt(),
               .directions = both ? 2 : 1,
               .per_layer = 0,
               .dropout = train ? call.arg(5).toDouble() : 0.0,
               .has_biases = call.arg(3).toBool(),
               .is_projected = false};
  if (has_cell) {
    const auto states = call.arg(1).toTensorVector();
    if (states.size() != 2) return false;
    of.hidden = states[0];
    of.cell = states[1];
  }
  const auto count = static_cast<std::size_t>(of.layers * of.directions);
  const std::size_t plain = of.has_biases ? 4 : 2;
  if (count == 0 || of.input.sym_size(0) == 0) return false;
  of.is_projected = has_cell && of.params.size() == count * (plain + 1);
  of.per_layer = of.is_projected ? plain + 1 : plain;
  if (of.params.size() != count * of.per_layer) return false;
  at::Tensor output = of.input;
  std::vector<at::Tensor> hidden, cells;
  for (std::int64_t i = 0; i < of.layers; ++i) {
    Layer layer;
    for (std::int64_t d = 0; d < of.directions; ++d) {
      if (!run_direction(of, output, i * of.directions + d, gates, layer)) return false;
    }
    output = at::cat(layer.outputs, -1);
    if (of.dropout > 0 && i + 1 < of.layers) output = at::dropout(output, of.dropout, true);
    hidden.insert(hidden.end(), layer.hidden.begin(), layer.hidden.end());
    cells.insert(cells.end(), layer.cells.begin(), layer.cells.end());
  }
  if (batch_first) output = output.transpose(0, 1);
  if (has_cell) {
    call.give(output, at::stack(hidden), at::stack(cells));
  } else {
    call.give(output, at::stack(hidden));
  }
  return true;
}

constexpr RuleRow kRows[] = {
    {"lstm.input", recurrent<4, true>},
    {"gru.input", recurrent<3, false>},
    {"rnn_tanh.input", recurrent<1, false>},
    {"rnn_relu.input", recurrent<1, false>},
};

}  // namespace

RuleTable recurrent_rules() { return as_table(kRows); }

}  // namespace pellucid::aten
