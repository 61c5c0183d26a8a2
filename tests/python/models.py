"""Small models of many kinds: each function returns a module and a function that makes the inputs
of a step; `loss_of` runs it."""

import torch
from torch import nn
from torch.nn import functional as F

VOCABULARY = 160


def loss_of(model, inputs):
    """The loss of a model on the keyword arguments of a step."""
    out = model(**inputs)
    return out if isinstance(out, torch.Tensor) else out.loss


def tokens(generator, *shape):
    return torch.randint(3, VOCABULARY, shape, generator=generator)


def text(generator):
    ids = tokens(generator, 2, 12)
    return {"input_ids": ids, "labels": ids}


def vit():
    from transformers import ViTConfig, ViTForImageClassification
    model = ViTForImageClassification(ViTConfig(
        hidden_size=96, num_hidden_layers=3, num_attention_heads=4, intermediate_size=192,
        image_size=32, patch_size=8, num_labels=10))
    return model, lambda g: {"pixel_values": torch.randn(2, 3, 32, 32, generator=g),
                             "labels": torch.randint(0, 10, (2,), generator=g)}


def t5():
    from transformers import T5Config, T5ForConditionalGeneration
    model = T5ForConditionalGeneration(T5Config(
        vocab_size=VOCABULARY, d_model=96, d_kv=24, d_ff=192, num_layers=2, num_heads=4,
        decoder_start_token_id=0, pad_token_id=0, dropout_rate=0.0))
    return model, lambda g: {"input_ids": tokens(g, 2, 9), "labels": tokens(g, 2, 7)}


def bert():
    from transformers import BertConfig, BertForMaskedLM
    model = BertForMaskedLM(BertConfig(
        vocab_size=VOCABULARY, hidden_size=96, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=192, max_position_embeddings=32, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0))
    return model, text


def whisper():
    from transformers import WhisperConfig, WhisperForConditionalGeneration
    model = WhisperForConditionalGeneration(WhisperConfig(
        vocab_size=VOCABULARY, num_mel_bins=16, d_model=96, encoder_layers=1, decoder_layers=1,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=192,
        decoder_ffn_dim=192, max_source_positions=16, max_target_positions=16, pad_token_id=0,
        bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, dropout=0.0))
    return model, lambda g: {"input_features": torch.randn(2, 16, 32, generator=g),
                             "labels": tokens(g, 2, 7)}


def mixtral():
    from transformers import MixtralConfig, MixtralForCausalLM
    model = MixtralForCausalLM(MixtralConfig(
        vocab_size=VOCABULARY, hidden_size=96, intermediate_size=32, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2,
        max_position_embeddings=32, output_router_logits=True))
    return model, text


def mamba():
    from transformers import MambaConfig, MambaForCausalLM
    model = MambaForCausalLM(MambaConfig(
        vocab_size=VOCABULARY, hidden_size=96, state_size=8, num_hidden_layers=4, use_cache=False))
    return model, text


class ConvNet(nn.Module):
    """Convolutions and batch norms, whose running means are buffers."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 48, 3, padding=1), nn.BatchNorm2d(48), nn.ReLU(), nn.MaxPool2d(2),
            *(layer for _ in range(5) for layer in (nn.Conv2d(48, 48, 3, padding=1),
                                                    nn.BatchNorm2d(48), nn.ReLU())),
            nn.Conv2d(48, 64, 3, padding=1, groups=2), nn.GroupNorm(4, 64), nn.ReLU())
        self.head = nn.Linear(64, 10)

    def forward(self, x, labels):
        return F.cross_entropy(self.head(self.body(x).mean((2, 3))), labels)


def conv():
    return ConvNet(), lambda g: {"x": torch.randn(4, 3, 16, 16, generator=g),
                                 "labels": torch.randint(0, 10, (4,), generator=g)}


class TiedNet(nn.Module):
    """A tied head, a block that is used three times, a parameter that is used outside of its
    module, and a recurrent layer."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 96)
        self.first = nn.Sequential(nn.Linear(96, 192), nn.GELU(), nn.Linear(192, 96))
        self.block = nn.Sequential(nn.LayerNorm(96), nn.Linear(96, 192), nn.GELU(), nn.Linear(192, 96))
        self.rnn = nn.LSTM(48, 48, num_layers=2, batch_first=True)
        self.gate = nn.Linear(96, 96)
        self.head = nn.Linear(96, VOCABULARY, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, input_ids, labels):
        h = self.first(self.embedding(input_ids))
        for _ in range(3):
            h = h + self.block(h)
        h = h + self.rnn(h[..., :48])[0].repeat(1, 1, 2)
        h = h * torch.sigmoid(F.linear(h, self.gate.weight.t(), self.gate.bias))
        logits = self.head(h) + F.linear(h, self.embedding.weight)
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def tied():
    return TiedNet(), text


class ChoosingNet(nn.Module):
    """The data choose one of three experts; the others have no gradient in that step, and one
    module is never used."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 96)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(96, 128), nn.Tanh(), nn.Linear(128, 96)) for _ in range(3))
        self.unused = nn.Linear(96, 96)
        self.head = nn.Linear(96, VOCABULARY)

    def forward(self, input_ids, labels):
        h = self.embedding(input_ids)
        h = h + self.experts[int(input_ids.sum()) % 3](h)
        return F.cross_entropy(self.head(h).flatten(0, 1), labels.flatten())


def choosing():
    return ChoosingNet(), text


class ListNet(nn.Module):
    """Parameters in a ParameterList and a ParameterDict, and a scalar."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ParameterList(nn.Parameter(torch.randn(96, 96) / 9) for _ in range(12))
        self.more = nn.ParameterDict({"in": nn.Parameter(torch.randn(VOCABULARY, 96)),
                                      "out": nn.Parameter(torch.randn(96, VOCABULARY) / 7)})
        self.scale = nn.Parameter(torch.tensor(1.5))

    def forward(self, input_ids, labels):
        h = self.more["in"][input_ids]
        for layer in self.layers:
            h = h + torch.tanh(h @ layer) * self.scale
        return F.cross_entropy((h @ self.more["out"]).flatten(0, 1), labels.flatten())


def listed():
    return ListNet(), text


def llama(layers=2):
    from transformers import LlamaConfig, LlamaForCausalLM
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=96, intermediate_size=192, num_hidden_layers=layers,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64))


def peft():
    from peft import LoraConfig, get_peft_model
    model = get_peft_model(llama(5), LoraConfig(
        r=16, lora_alpha=16, lora_dropout=0.0, init_lora_weights=False,
        target_modules=["q_proj", "v_proj", "up_proj"]))
    return model, text


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(96)
        self.up = nn.Linear(96, 192)
        self.down = nn.Linear(192, 96)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class CompiledNet(nn.Module):
    """One block compiled as a wrapper, one in place, two not."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 96)
        self.blocks = nn.ModuleList([torch.compile(Block()), Block(), Block(), Block()])
        self.blocks[1].compile()
        self.head = nn.Linear(96, VOCABULARY)

    def forward(self, input_ids, labels):
        h = self.embedding(input_ids)
        for block in self.blocks:
            h = block(h)
        return F.cross_entropy(self.head(h).flatten(0, 1), labels.flatten())


def compiled():
    return CompiledNet(), text


ALL = [vit, t5, bert, whisper, mixtral, mamba, conv, tied, choosing, listed, peft, compiled]
