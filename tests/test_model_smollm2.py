"""SmolLM2-135M through our forward pass and through `transformers`: the same words."""

import pytest
import torch
import transformers

from engine.batch import Batch, Part
from engine.cache import KVCache
from engine.model import Model

pytestmark = [pytest.mark.model, pytest.mark.slow]
NUM_TOKENS = 128
PROMPTS = (
    "The capital of France is",
    "<|im_start|>user\nWhy is the sky blue?<|im_end|>\n<|im_start|>assistant\n",
    "def fibonacci(n):\n    ",
    "<|im_start|>user\nRepeat after me, three times: apple, river, candle, mirror.<|im_end|>\n<|im_start|>assistant\n",
    "从前有一座山，山里有",
)


@pytest.fixture(scope="module")
def model(smollm2) -> Model:
    return Model(smollm2, "float32")


@pytest.fixture(scope="module")
def peer(smollm2) -> transformers.PreTrainedModel:
    """transformers' Llama with our tensors: its own reader of .gguf files takes most of a minute."""
    config = transformers.AutoConfig.from_pretrained(smollm2.folder)
    peer = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    missing, surplus = peer.load_state_dict(smollm2.tensors, strict=False)
    assert missing in ([], ["lm_head.weight"])  # tied
    assert not surplus
    peer.generation_config.eos_token_id = None  # all 128 tokens, whatever they say
    return peer


def greedy(model: Model, prompt_ids: list[int]) -> list[int]:
    """The prompt in one pass, then one token after the other."""
    table = range(-(-(len(prompt_ids) + NUM_TOKENS) // 16))
    cache = KVCache(model.config, len(table), 16, "float32")
    logits = model.forward(Batch.join([Part("prompt", prompt_ids, table, 0, num_logits=1)]), cache)
    output = [int(logits[0].argmax())]
    while len(output) < NUM_TOKENS:
        part = Part("generated", output[-1:], table, len(prompt_ids) + len(output) - 1)
        output.append(int(model.forward(Batch.join([part]), cache)[0].argmax()))
    return output


@pytest.mark.parametrize("prompt", PROMPTS, ids=["capital", "sky", "code", "copy", "chinese"])
def test_greedy_text_is_that_of_transformers_for_128_tokens(smollm2, model, peer, prompt):
    prompt_ids = smollm2.tokenizer.encode(prompt, allow_special=True)
    expected = peer.generate(torch.tensor([prompt_ids]), max_new_tokens=NUM_TOKENS, do_sample=False)
    assert greedy(model, prompt_ids) == expected[0, len(prompt_ids) :].tolist()


def test_half_precision_weights_choose_the_same_tokens_and_take_half_the_memory(smollm2, model):
    small = Model(smollm2, "float16")
    prompt_ids = smollm2.tokenizer.encode(PROMPTS[1], allow_special=True)
    text = prompt_ids + greedy(model, prompt_ids)
    cache = KVCache(model.config, num_blocks=1, block_size=512, dtype="float16")
    logits = small.forward(Batch.join([Part("prompt", text, [0], 0)]), cache)
    chosen = logits.argmax(-1)[len(prompt_ids) - 1 : -1].tolist()
    agreement = sum(one == other for one, other in zip(chosen, text[len(prompt_ids) :], strict=True)) / NUM_TOKENS
    assert agreement >= 0.98
    assert small.num_bytes < 0.51 * model.num_bytes
