/**
 * An ESLint rule against spaces that `html` templates lose.
 *
 * htm drops whitespace that contains a line break. Beside a tag of a block that is what one wants,
 * but between words and an inline element or a value the space is missing on the page.
 */

const INLINE = "(?:a|b|code|i|kbd|small|span|strong|\0)";
const OPENS_INLINE = new RegExp(`^<${INLINE}(?=[\\s/>])`);
const CLOSES_INLINE = new RegExp(`^</${INLINE}>|^<${INLINE}[^>]*/>$`);
const TAGS = /(<\/?[^<>]*>)/;
const VALUE = "\0"; // stands for an interpolated value
const LITERAL = "\x01"; // stands for a literal one, such as the space that is written out

/** Whether words end in a line break before a value, or begin with one after it. */
const LOST_BESIDE_VALUE = /[^\s\0\x01]\s*\n\s*\0|\0\s*\n\s*[^\s\0\x01]/;
const ENDS_IN_BREAK = /[^\s\0\x01]\s*\n\s*$/;
const BEGINS_WITH_BREAK = /^\s*\n\s*[^\s\0\x01]/;

function losesSpace(template) {
  const parts = template.split(TAGS);
  return parts.some((part, index) => {
    if (index % 2) return false; // a tag
    const before = parts[index - 1] || "";
    const after = parts[index + 1] || "";
    return (
      LOST_BESIDE_VALUE.test(part) ||
      (OPENS_INLINE.test(after) && ENDS_IN_BREAK.test(part)) ||
      (CLOSES_INLINE.test(before) && BEGINS_WITH_BREAK.test(part))
    );
  });
}

export default {
  meta: {
    type: "problem",
    schema: [],
    messages: { lost: 'The space at a line break is lost: write it as ${" "}.' },
  },
  create: (context) => ({
    TaggedTemplateExpression({ tag, quasi }) {
      if (tag.name !== "html") return;
      const values = quasi.expressions.map((value) => (value.type === "Literal" ? LITERAL : VALUE));
      const template = quasi.quasis
        .map((part, index) => part.value.raw + (values[index] ?? ""))
        .join("");
      if (losesSpace(template)) context.report({ node: quasi, messageId: "lost" });
    },
  }),
};
