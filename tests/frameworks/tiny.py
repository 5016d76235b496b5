# SPDX-License-Identifier: Apache-2.0
"""tiny.py DIR: a Qwen2 model of some thousand random weights with a tokenizer of its own, and a few generated rows of
each kind. Its files say no more than every version of transformers reads, and nothing is downloaded for them."""

import json
import pathlib
import random
import sys

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
WORDS = ["one", "two", "three", "four"]
CONFIG = {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "vocab_size": 300, "hidden_size": 32,
    "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2,
    "max_position_embeddings": 512, "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
    "tie_word_embeddings": False, "use_sliding_window": False, "torch_dtype": "float32", "eos_token_id": 2,
    "pad_token_id": 0,
}
TEMPLATE = ("{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
            "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


def tokenizer(folder):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator([" ".join(WORDS)], trainers.BpeTrainer(vocab_size=300, special_tokens=SPECIAL,
                                                                   initial_alphabet=alphabet, show_progress=False))
    made.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": SPECIAL[2], "pad_token": SPECIAL[0],
        "model_max_length": 512, "chat_template": TEMPLATE}))


def model(folder):
    import torch
    from safetensors.torch import save_file
    from transformers import Qwen2Config, Qwen2ForCausalLM
    torch.manual_seed(0)
    made = Qwen2ForCausalLM(Qwen2Config(**CONFIG)).float()
    save_file({name: value.contiguous() for name, value in made.state_dict().items()}, folder / "model.safetensors",
              metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(CONFIG))


def rows(folder):
    """Of lengths that differ, so that batches are padded."""
    random.seed(0)
    sft, dpo, prompts = [], [], []
    for i in range(48):
        question = {"role": "user", "content": "count " + random.choice(WORDS)}
        answer = {"role": "assistant", "content": " ".join(random.choices(WORDS, k=3 + i % 7))}
        sft.append({"messages": [question, answer]})
        dpo.append({"messages": [question, answer], "rejected_response": "no no no"})
        prompts.append({"messages": [question]})
    for name, lines in (("sft", sft), ("dpo", dpo), ("prompts", prompts)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    root = pathlib.Path(sys.argv[1])
    (root / "model").mkdir(parents=True)
    tokenizer(root / "model")
    model(root / "model")
    rows(root)
