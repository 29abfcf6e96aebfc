// Transforms of windows of a signal, and back. torch's kernels of these composite operators work with plain ints.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <cstdint>
#include <optional>

#include "aten/call.h"
#include "aten/rules.h"

namespace pellucid::aten {
namespace {

std::optional<std::int64_t> optional_int(const c10::IValue& value) {
  return value.isNone() ? std::nullopt : std::optional(value.toInt());
}

// How windows of a signal are cut: `n_fft` numbers, a step of `hop` apart, of which `length` in the middle count.
struct Windows {
  std::int64_t n_fft, hop, length;

  bool is_valid() const { return n_fft > 0 && hop > 0 && length > 0 && length <= n_fft; }
  std::int64_t left() const { return (n_fft - length) / 2; }
};

Windows windows_of(const Call& call) {
  const std::int64_t n_fft = call.arg(1).toInt();
  return {n_fft, optional_int(call.arg(2)).value_or(n_fft >> 2), optional_int(call.arg(3)).value_or(n_fft)};
}

// `window`, or nothing, or ones, with zeros around as long as a transform. False: it is none for these windows.
bool pad_window(at::Tensor& window, const Windows& windows, const c10::TensorOptions& options, bool needs_one) {
  if (window.defined() && (window.dim() != 1 || window.sym_size(0) != windows.length)) return false;
  const bool is_short = windows.length < windows.n_fft;
  if (!window.defined() && (needs_one || is_short)) window = at::ones({windows.length}, options);
  if (is_short) {
    window = at::constant_pad_nd(window, {windows.left(), windows.n_fft - windows.length - windows.left()}, 0);
  }
  return true;
}

constexpr std::int64_t kUnscaled = 0, kByRoot = 1, kByN = 2;  // at::native::fft_norm_mode

// self, n_fft, hop_length, win_length, window, normalized, onesided, return_complex, align_to_window
bool stft(Call& call) {
  at::Tensor self = call.tensor(0), window = call.maybe_tensor(4);
  const Windows windows = windows_of(call);
  const bool is_vector = self.dim() == 1;
  // Where this is not so the kernel has the message, or a warning.
  const bool is_known = (is_vector || self.dim() == 2) && (self.is_floating_point() || self.is_complex()) &&
                        windows.is_valid() && !call.arg(7).isNone() && (call.arg(8).isNone() || !call.arg(8).toBool());
  if (!is_known || self.sym_size(-1) < windows.n_fft) return false;
  if (!pad_window(window, windows, self.options(), /*needs_one=*/false)) return false;
  if (is_vector) self = self.unsqueeze(0);
  const c10::SymInt frames = (self.sym_size(1) - windows.n_fft) / windows.hop + 1;
  self = self.as_strided_symint({self.sym_size(0), frames, windows.n_fft},
                                {self.sym_stride(0), self.sym_stride(1) * windows.hop, self.sym_stride(1)});
  if (window.defined()) self = self.mul(window);
  const std::int64_t norm = call.arg(5).toBool() ? kByRoot : kUnscaled;
  const bool onesided = call.arg(6).isNone() ? !self.is_complex() : call.arg(6).toBool();
  if (self.is_complex() && onesided) return false;
  at::Tensor out =
      self.is_complex() ? at::_fft_c2c(self, {2}, norm, /*forward=*/true) : at::_fft_r2c(self, {2}, norm, onesided);
  out.transpose_(1, 2);
  if (is_vector) out.squeeze_(0);
  call.give(call.arg(7).toBool() ? out : at::view_as_real(out));
  return true;
}

// self, n_fft, hop_length, win_length, window, center, normalized, onesided, length, return_complex
bool istft(Call& call) {
  const at::Tensor self = call.tensor(0);
  at::Tensor window = call.maybe_tensor(4);
  const Windows windows = windows_of(call);
  const bool is_matrix = self.dim() == 2, center = call.arg(5).toBool();
  const bool is_known = self.is_complex() && (is_matrix || self.dim() == 3) && windows.is_valid() &&
                        windows.hop <= windows.length && call.arg(8).isNone() && !call.arg(9).toBool();
  if (!is_known || self.sym_numel() == 0) return false;
  const c10::SymInt frequencies = self.sym_size(-2), frames = self.sym_size(-1);
  const std::int64_t half = windows.n_fft / 2;
  const bool onesided = call.arg(7).isNone() ? frequencies != windows.n_fft : call.arg(7).toBool();
  if (frequencies != (onesided ? half + 1 : windows.n_fft)) return false;
  at::Tensor real = at::view_as_real(self.resolve_conj());
  if (!pad_window(window, windows, real.options(), /*needs_one=*/true)) return false;
  if (is_matrix) real = real.unsqueeze(0);
  at::Tensor input = at::view_as_complex(real.transpose(1, 2));  // (channel, frames, frequencies)
  if (!onesided) input = input.slice(-1, 0, half + 1);
  input = at::_fft_c2r(input, {2}, call.arg(6).toBool() ? kByRoot : kByN, windows.n_fft);
  const c10::SymInt length = (frames - 1) * windows.hop + windows.n_fft;
  const auto add_up = [&](const at::Tensor& of_frames) {
    const at::Tensor sum =
        at::unfold_backward_symint(of_frames, {of_frames.sym_size(0), length}, 1, windows.n_fft, windows.hop);
    const std::int64_t start = center ? half : 0;
    return sum.slice_symint(1, start, center ? c10::SymInt(-half) : length, 1);
  };
  const at::Tensor envelope = add_up(window.pow(2).expand_symint({1, frames, windows.n_fft}));
  at::Tensor out = add_up(input * window.view({1, 1, windows.n_fft})) / envelope;
  Call::note_may_raise();  // where the envelope is 0
  call.give(is_matrix ? out.squeeze(0) : out);
  return true;
}

constexpr RuleRow kRows[] = {{"stft", stft}, {"istft", istft}};

}  // namespace

RuleTable spectral_rules() { return as_table(kRows); }

}  // namespace pellucid::aten
