import js from "@eslint/js";
import globals from "globals";
import templateWhitespace from "./template-whitespace.js";

export default [
  { ignores: ["**/vendor/**"] },
  js.configs.recommended,
  {
    files: ["src/dragoman/dashboard/static/**/*.js"],
    languageOptions: { ecmaVersion: 2024, sourceType: "module", globals: globals.browser },
    plugins: { local: { rules: { "template-whitespace": templateWhitespace } } },
    rules: {
      "local/template-whitespace": "error",
      complexity: ["error", 20],
      curly: ["error", "multi-line"],
      eqeqeq: ["error", "always", { null: "ignore" }],
      "max-depth": ["error", 3],
      // Prettier leaves templates as they are.
      "max-len": ["error", { code: 100, ignoreRegExpLiterals: true, ignorePattern: "data:image" }],
      "max-lines": ["error", 400],
      "max-lines-per-function": ["error", 110],
      "max-params": ["error", 5],
      "no-duplicate-imports": "error",
      "no-implicit-coercion": "error",
      "no-nested-ternary": "error",
      "no-param-reassign": "error",
      "no-sequences": "error",
      "no-unneeded-ternary": "error",
      "no-unused-expressions": "error",
      "no-var": "error",
      "object-shorthand": "error",
      "one-var": ["error", "never"],
      "prefer-const": "error",
      "prefer-destructuring": ["error", { VariableDeclarator: { array: false, object: true } }],
      "prefer-template": "off",
    },
  },
];
