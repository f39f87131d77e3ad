"""Training loops of other libraries, each as its documents have it, with evaluations in between.

--library lightning       Lightning's Trainer: GPT-2 medium's width on texts of other lengths in each step
--library timm            timm: ConvNeXt base with mixup, LAMB, float16 and averaged weights
--library ignite          Ignite's engines: EfficientNetV2-S in float16
--library x_transformers  x-transformers: a decoder, four micro-batches, and texts that it generates
--library peft            peft and accelerate: adapters (LoRA) for a Llama, four micro-batches of other
                          lengths in each step, and texts that it generates
"""

import argparse
import importlib
import random
from typing import Any

from models import VOCABULARY, small_llama
from steps import STEPS, StepLog

import torch
from torch import Tensor, nn

ADAM: Any = torch.optim.AdamW
EVERY = 6  # steps to an evaluation


def pictures(count: int, size: int) -> tuple[Tensor, Tensor]:
    return torch.randn(count, 3, size, size, device="cuda"), torch.randint(0, 1000, (count,), device="cuda")


def texts() -> list[Tensor]:
    """Those of a batch of eight are of one length."""
    draw = random.Random(1)
    batches = [torch.randint(0, VOCABULARY, (8, draw.randrange(256, 1024))) for _ in range(STEPS + 8)]
    return [text for batch in batches for text in batch]


def lightning() -> None:
    library: Any = importlib.import_module("lightning")
    hf: Any = importlib.import_module("transformers")

    class Module(library.LightningModule):  # type: ignore[misc]  # the library may not be here
        def __init__(self) -> None:
            super().__init__()
            config = hf.GPT2Config(n_embd=1024, n_layer=12, n_head=16, vocab_size=VOCABULARY)
            self.model = hf.GPT2LMHeadModel(config)

        def training_step(self, batch: Tensor, _: int) -> Tensor:
            loss: Tensor = self.model(input_ids=batch, labels=batch).loss
            return loss

        def validation_step(self, batch: Tensor, _: int) -> None:
            self.log("loss", self.model(input_ids=batch, labels=batch).loss)

        def configure_optimizers(self) -> Any:  # noqa: ANN401  # torch has no types here
            return ADAM(self.parameters(), lr=1e-4)

        def on_fit_start(self) -> None:
            self.steps = StepLog()

        def on_train_batch_end(self, *_: object) -> None:
            self.steps.end()

    trainer = library.Trainer(
        max_steps=STEPS,
        precision="bf16-mixed",
        gradient_clip_val=1.0,
        val_check_interval=EVERY,
        limit_val_batches=2,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        devices=1,
    )
    loader: Any = torch.utils.data.DataLoader
    trainer.fit(Module(), loader(texts(), batch_size=8), loader(texts(), batch_size=8))


def timm() -> None:
    library: Any = importlib.import_module("timm")
    optim: Any = importlib.import_module("timm.optim")
    data: Any = importlib.import_module("timm.data")
    loss_of: Any = importlib.import_module("timm.loss").SoftTargetCrossEntropy()
    utils: Any = importlib.import_module("timm.utils")
    model = library.create_model("convnext_base", drop_path_rate=0.2)
    model = model.to("cuda", memory_format=torch.channels_last)
    average = utils.ModelEmaV3(model)
    mix = data.Mixup(mixup_alpha=0.8, cutmix_alpha=1.0, num_classes=1000)
    optimizer = optim.create_optimizer_v2(model, "lamb", lr=1e-3, weight_decay=0.02)
    scaler = torch.amp.GradScaler()
    log = StepLog()
    for step in range(1, STEPS + 1):
        seen, labels = mix(*pictures(96, 224))
        with torch.autocast("cuda", torch.float16):
            loss = loss_of(model(seen.contiguous(memory_format=torch.channels_last)), labels)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        average.update(model)
        log.end()
        if step % EVERY == 0:
            with torch.no_grad(), torch.autocast("cuda", torch.float16):
                for _ in range(3):
                    average.module.eval()(pictures(192, 224)[0])


def ignite() -> None:
    engine: Any = importlib.import_module("ignite.engine")
    model = importlib.import_module("torchvision").models.efficientnet_v2_s().cuda()
    optimizer: Any = torch.optim.RMSprop(model.parameters(), lr=1e-3, momentum=0.9)
    scaler = torch.amp.GradScaler()
    log = StepLog()

    def update(_: object, batch: tuple[Tensor, Tensor]) -> Tensor:
        model.train()
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.float16):
            loss = nn.functional.cross_entropy(model(batch[0].cuda()), batch[1].cuda())
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    @torch.no_grad()
    def evaluate(_: object, batch: tuple[Tensor, Tensor]) -> Tensor:
        predicted: Tensor = model.eval()(batch[0].cuda())
        return predicted

    trainer, evaluator = engine.Engine(update), engine.Engine(evaluate)
    events: Any = engine.Events
    batches = [tuple(part.cpu() for part in pictures(48, 300)) for _ in range(3)]
    trainer.add_event_handler(events.ITERATION_COMPLETED, lambda _: log.end())
    trainer.add_event_handler(events.ITERATION_COMPLETED(every=EVERY), lambda _: evaluator.run(batches))
    trainer.run(batches, max_epochs=1, epoch_length=STEPS)


def x_transformers() -> None:
    library: Any = importlib.import_module("x_transformers")
    layers = library.Decoder(dim=768, depth=12, heads=12, attn_flash=True, rotary_pos_emb=True)
    network = library.TransformerWrapper(num_tokens=256, max_seq_len=2048, attn_layers=layers)
    model = library.AutoregressiveWrapper(network).cuda()
    optimizer = ADAM(model.parameters(), lr=1e-4)
    log = StepLog()
    for step in range(1, STEPS + 1):
        for _ in range(4):
            (model(torch.randint(0, 256, (4, 2049), device="cuda")) / 4).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()
        log.end()
        if step % EVERY == 0:
            model.eval().generate(torch.randint(0, 256, (1, 64), device="cuda"), 64)
            model.train()


def peft() -> None:
    library: Any = importlib.import_module("peft")
    accelerator = importlib.import_module("accelerate").Accelerator(
        mixed_precision="bf16", gradient_accumulation_steps=4
    )
    kinds = ["q_proj", "k_proj", "v_proj", "o_proj"]
    adapters = library.LoraConfig(r=16, lora_dropout=0.05, target_modules=kinds, task_type="CAUSAL_LM")
    llama = small_llama("cpu", layers=12, dtype=torch.bfloat16)
    model = library.get_peft_model(llama, adapters)
    model, optimizer = accelerator.prepare(model, ADAM(model.parameters(), lr=1e-4))
    draw = random.Random(1)
    log = StepLog()
    for step in range(1, STEPS + 1):
        for _ in range(4):
            longest = max(draw.randrange(64, 1536) for _ in range(8))
            tokens = torch.randint(0, VOCABULARY, (8, longest), device="cuda")
            with accelerator.accumulate(model):
                accelerator.backward(model(input_ids=tokens, labels=tokens).loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
        log.end()
        if step % EVERY == 0:
            start = torch.randint(0, VOCABULARY, (8, 96), device="cuda")
            with torch.no_grad():
                accelerator.unwrap_model(model).eval().generate(input_ids=start, max_new_tokens=48)
            model.train()


if __name__ == "__main__":
    loops = {loop.__name__: loop for loop in (lightning, timm, ignite, x_transformers, peft)}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--library", choices=loops, required=True)
    loops[parser.parse_args().library]()
