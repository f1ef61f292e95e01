# SPDX-License-Identifier: Apache-2.0
"""bin.py OUT: a small Llama in two files of torch.save with their index, as transformers saved models before safetensors."""
import json
import os
import sys

import torch, transformers
transformers.logging.set_verbosity_error()
out = sys.argv[1]
torch.manual_seed(5)
c = transformers.LlamaConfig(vocab_size=11, hidden_size=8, intermediate_size=12, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=16, tie_word_embeddings=False)
m = transformers.LlamaForCausalLM(c).to(torch.bfloat16)
c.architectures = ["LlamaForCausalLM"]; c.save_pretrained(out)
sd = m.state_dict(); names = list(sd); half = len(names) // 2
files = {"pytorch_model-00001-of-00002.bin": names[:half], "pytorch_model-00002-of-00002.bin": names[half:]}
for f, ns in files.items():
    torch.save({n: sd[n].clone() for n in ns}, os.path.join(out, f))
json.dump({"metadata": {"total_size": sum(t.numel() * 2 for t in sd.values())}, "weight_map": {n: f for f, ns in files.items() for n in ns}},
          open(os.path.join(out, "pytorch_model.bin.index.json"), "w"), indent=1)
