#!/usr/bin/env python3
"""Prints what tests/task/bleu_test.cc holds BLEU to: sacrebleu's scores and words, from texts that try every rule of its tokenisation.
Run where sacrebleu is installed; made with sacrebleu 2.6.0."""

import json

import sacrebleu
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

TEXTS = ["A man, 3.5 feet tall: \"hello\" -- it's 1,000.5!", "&quot;x&quot; &amp; &lt;b&gt; <skipped>", "10-20 a-b 3-ß ß-3 9-", ".. ... .5 5. a.5 5.a ,, a,5 5,a",
         "é. ü, 日本語。 “q” – —", "(x)[y]{z} a/b #1 50% $5 @me ~ ` ^ a_b *", "a\u00a0b\u2003c\u3000d\u202fe", "\ttabs  and   spaces "]  # fmt: skip
PAIRS = [("the cat sat on the mat .", "the cat sat on the mat ."), ("the the the the the the the", "the cat is on the mat"),
         ("a dog runs across the green field", "a brown dog runs across the field"), ("two men are cooking", "two men are cooking in a kitchen with pans."),
         ("it is.", "it is."), ("nothing alike here", "completely other words"), ("a b c d e f g h", "a b x c d y e f z")]  # fmt: skip

cpp = lambda text: json.dumps(text, ensure_ascii=False)
for text in TEXTS:
    print(f"{{{cpp(text)}, {cpp(' '.join(Tokenizer13a()(text).split()))}}},")
for output, reference in PAIRS:
    print(f"{{{cpp(output)}, {cpp(reference)}, {sacrebleu.corpus_bleu([output], [[reference]]).score!r}}},")
print(sacrebleu.corpus_bleu([o for o, _ in PAIRS], [[r for _, r in PAIRS]]).score)
