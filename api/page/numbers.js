// Numbers as people read them. What is copied or downloaded keeps all its digits instead.

const SUPERSCRIPT = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

/** Returns a number with so many significant digits, very small and very large ones as powers of ten. */
export function plain(number, digits = 4) {
  if (number === null || number === undefined) return "–";
  if (typeof number === "string") return number === "inf" ? "∞" : number;
  if (number === 0 || (Math.abs(number) >= 1e-3 && Math.abs(number) < 1e6)) return String(Number(number.toPrecision(digits)));
  const [mantissa, exponent] = number.toExponential(digits - 1).split("e");
  const power = `10${[...exponent.replace("+", "")].map((sign) => SUPERSCRIPT[sign]).join("")}`;
  return Number(mantissa) === 1 ? power : `${Number(mantissa)} × ${power}`;
}

/** Returns a proved bound, such as an ε or a δ, never less than it is. */
export function roundedUp(number, digits = 4) {
  if (typeof number !== "number" || number <= 0) return plain(number, digits);
  const rounded = Number(number.toPrecision(digits));
  const unit = 10 ** (Math.floor(Math.log10(rounded)) + 1 - digits);
  return plain(rounded < number ? rounded + unit : rounded, digits);
}

const NOTHING = 1e-9; // what is so close to 1 is called 1

/** Returns a share of 1 in percent; what falls short of it is never shown as all of it. */
export function percent(share, decimals = 2) {
  if (share >= 1 - NOTHING) return "100 %";
  const text = (share * 100).toFixed(decimals);
  return text.startsWith("100") ? `over ${(100 - 10 ** -decimals).toFixed(decimals)} %` : `${text} %`;
}

/** Returns a privacy guarantee. */
export function guarantee(epsilon, delta) {
  return delta === 0 ? `${roundedUp(epsilon)}-DP` : `(${roundedUp(epsilon)}, ${roundedUp(delta, 3)})-DP`;
}

/** Returns the sentence on what a total assumes of private voters; nothing where that makes no difference. */
export function assumed({ fresh, queries, voters }) {
  if (voters.epsilon === "inf" || queries === 1) return "";
  return ` The voters were taken to ${fresh ? "be fresh" : "have been trained once"}.`;
}

/** Returns "1 voter", "2 voters". */
export function count(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}
