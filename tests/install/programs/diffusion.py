"""A diffusers pipeline whose UNet is compiled."""

import sys

import torch
from diffusers import DDPMPipeline, DDPMScheduler, UNet2DModel
from reported import report

torch.manual_seed(0)
unet = UNet2DModel(
    sample_size=8, block_out_channels=(8, 16), layers_per_block=1, norm_num_groups=4, attention_head_dim=4,
    down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
)  # fmt: skip
pipeline = DDPMPipeline(unet, DDPMScheduler(num_train_timesteps=20))
pipeline.set_progress_bar_config(disable=True)
if "--compile" in sys.argv:
    pipeline.unet = torch.compile(pipeline.unet, backend="eager", fullgraph=True)
images = pipeline(
    batch_size=2, num_inference_steps=4, output_type="np", generator=torch.Generator().manual_seed(1)
).images  # fmt: skip
report(torch.from_numpy(images))
