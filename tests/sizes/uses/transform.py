"""Fourier transforms and what is made of them."""

from __future__ import annotations

import torch

from uses.table import ramp, rows, uses

uses(
    "fft",
    rows,
    fft=torch.fft.fft,
    fft_to_size=lambda x: torch.fft.fft(x, 2 * x.size(-1)),
    ifft=torch.fft.ifft,
    rfft=torch.fft.rfft,
    irfft=lambda x: torch.fft.irfft(torch.fft.rfft(x)),
    irfft_n=lambda x: torch.fft.irfft(torch.fft.rfft(x), n=x.size(-1)),
    hfft=torch.fft.hfft,
    ihfft=torch.fft.ihfft,
    fft2=torch.fft.fft2,
    ifft2=torch.fft.ifft2,
    rfft2=torch.fft.rfft2,
    irfft2=torch.fft.irfft2,
    irfft2_s=lambda x: torch.fft.irfft2(torch.fft.rfft2(x), s=x.shape),
    fftn=torch.fft.fftn,
    ifftn=torch.fft.ifftn,
    rfftn=torch.fft.rfftn,
    irfftn=torch.fft.irfftn,
    hfft2=torch.fft.hfft2,
    ihfft2=torch.fft.ihfft2,
    fftfreq=lambda x: torch.fft.fftfreq(x.size(-1)),
    rfftfreq=lambda x: torch.fft.rfftfreq(x.size(-1)),
    fftshift=torch.fft.fftshift,
    ifftshift=torch.fft.ifftshift,
    convolution=lambda x: torch.fft.irfft(
        torch.fft.rfft(x, 2 * x.size(-1)) * torch.fft.rfft(x, 2 * x.size(-1)), 2 * x.size(-1)
    ),
)
uses(
    "spectrograms",
    lambda n: [ramp(2, 4 * n)],
    stft=lambda x: torch.stft(x, 8, return_complex=True),
    stft_window=lambda x: torch.stft(x, 8, hop_length=2, window=torch.hann_window(8), return_complex=True),
    stft_uncentred=lambda x: torch.stft(x, 8, center=False, return_complex=True, window=torch.ones(8)),
    stft_of_one=lambda x: torch.stft(x[0], 8, return_complex=True, normalized=True, window=torch.ones(8)),
    stft_real=lambda x: torch.view_as_real(torch.stft(x, 8, return_complex=True, window=torch.ones(8))),
    stft_constant=lambda x: torch.stft(x, 8, return_complex=True, window=torch.ones(8), pad_mode="constant"),
    stft_short=lambda x: torch.stft(x, 8, win_length=5, return_complex=True, window=torch.hann_window(5)),
    stft_short_ones=lambda x: torch.stft(x, 9, 3, 6, return_complex=True, normalized=True),
    stft_twosided=lambda x: torch.stft(x, 7, return_complex=True, onesided=False, window=torch.ones(7)),
    stft_complex=lambda x: torch.stft(torch.complex(x, x), 8, return_complex=True, window=torch.ones(8)),
    stft_real_pairs=lambda x: torch.stft(x.double(), 8, return_complex=False, window=torch.ones(8).double()),
    stft_of_transposed=lambda x: torch.stft(x.T.contiguous().T, 8, center=False, return_complex=True),
    istft=lambda x: torch.istft(torch.stft(x, 8, return_complex=True, window=torch.ones(8)), 8, window=torch.ones(8)),
)
uses(
    "spectrograms of batches",
    lambda n: [ramp(n, 32)],
    stft=lambda x: torch.stft(x, 8, return_complex=True, window=torch.ones(8)),
    istft=lambda x: torch.istft(torch.stft(x, 8, return_complex=True, window=torch.ones(8)), 8, window=torch.ones(8)),
)
uses(
    "spectra",
    lambda n: [torch.complex(ramp(2, 5, n), ramp(2, 5, n))],
    istft=lambda x: torch.istft(x, 8, window=torch.ones(8)),
    istft_of_one=lambda x: torch.istft(x[0], 8, normalized=True),
    istft_short=lambda x: torch.istft(x, 8, 2, 6, window=torch.ones(6) + 0.5),
    istft_uncentred=lambda x: torch.istft(x, 8, center=False, window=torch.ones(8)),
    istft_twosided=lambda x: torch.istft(x, 5, onesided=False, window=torch.ones(5)),
    istft_of_conjugate=lambda x: torch.istft(x.conj(), 8, window=torch.ones(8)),
)
