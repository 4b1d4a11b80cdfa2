(* darrm-formal: reads certificates from standard input and says of each whether it is proved private.

   A certificate is a few lines, each a name and its value, ended by the line "check":

     K 11               voters
     affected 11        voters that one record can influence
     epsilon 0.1        of one voter; or inf: the voters are not private
     Delta 1e-5         of one voter
     m 3                the target is m * epsilon; or: target 0.3
     delta 3e-5         of the release
     gamma 1 0.5 ...    gamma(0), ..., gamma(K)
     check

   Numbers are decimals or fractions (1/3), taken exactly as they are written. The answer is one line for each:
   "private" or "not proved". The exit status is 0 if all are private, 1 if some are not proved, 2 if the input is not
   of this form or has no certificate.

   This file is not proved: it turns text into numbers, and hands them to the extracted function "check". *)

module Big = Z (* Zarith's, before the extracted code takes the name *)
open Darrm_checker

exception Bad of string

let bits = Big.of_int 192
let max_voters = 1_000
let max_exponent = 5_000

let rec nat_of_int n = if n = 0 then O else S (nat_of_int (n - 1))

let digits text =
  if text = "" || not (String.for_all (fun c -> c >= '0' && c <= '9') text) then raise (Bad ("not a number: " ^ text));
  Big.of_string text

(* A signed decimal such as -1.25e-3, as numerator and denominator. *)
let decimal text =
  let negative = text <> "" && text.[0] = '-' in
  let unsigned = if negative then String.sub text 1 (String.length text - 1) else text in
  let mantissa, exponent =
    match String.split_on_char 'e' (String.lowercase_ascii unsigned) with
    | [ mantissa ] -> (mantissa, 0)
    | [ mantissa; exponent ] ->
        let down = exponent <> "" && exponent.[0] = '-' in
        let signed = exponent <> "" && (exponent.[0] = '-' || exponent.[0] = '+') in
        let size = digits (if signed then String.sub exponent 1 (String.length exponent - 1) else exponent) in
        if Big.gt size (Big.of_int max_exponent) then raise (Bad ("exponent out of range: " ^ text));
        (mantissa, if down then -Big.to_int size else Big.to_int size)
    | _ -> raise (Bad ("not a number: " ^ text))
  in
  let whole, part =
    match String.split_on_char '.' mantissa with
    | [ whole ] -> (whole, "")
    | [ whole; part ] -> (whole, part)
    | _ -> raise (Bad ("not a number: " ^ text))
  in
  let value = digits (whole ^ part) in
  let exponent = exponent - String.length part in
  let power = Big.pow (Big.of_int 10) (abs exponent) in
  let value = if negative then Big.neg value else value in
  if exponent >= 0 then (Big.mul value power, Big.one) else (value, power)

(* A decimal, or a fraction of two whole numbers, as Coq's rational. *)
let rational text =
  let num, den =
    match String.split_on_char '/' text with
    | [ number ] -> decimal number
    | [ num; den ] ->
        let num, one = decimal num and den = digits den in
        if not (Big.equal one Big.one) || Big.sign den = 0 then raise (Bad ("not a fraction of whole numbers: " ^ text));
        (num, den)
    | _ -> raise (Bad ("not a number: " ^ text))
  in
  let common = Big.gcd num den in
  { qnum = Big.divexact num common; qden = Big.divexact den common }

let natural text =
  let number = digits text in
  if Big.gt number (Big.of_int max_voters) then raise (Bad ("at most " ^ string_of_int max_voters ^ " voters: " ^ text));
  nat_of_int (Big.to_int number)

let names = [ "K"; "affected"; "epsilon"; "Delta"; "m"; "target"; "delta"; "gamma" ]

let input_of fields =
  let values_of name = List.assoc_opt name fields in
  let value_of name =
    match values_of name with Some [ value ] -> value | _ -> raise (Bad (name ^ " needs one value"))
  in
  {
    voters = natural (value_of "K");
    affected = natural (value_of "affected");
    voter_epsilon = (match value_of "epsilon" with "inf" -> None | value -> Some (rational value));
    voter_Delta = rational (value_of "Delta");
    aim =
      (match (values_of "m", values_of "target") with
      | Some [ m ], None -> Allowance (rational m)
      | None, Some [ target ] -> Target (rational target)
      | _ -> raise (Bad "exactly one of m and target is needed, with one value"));
    release_delta = rational (value_of "delta");
    gamma =
      (match values_of "gamma" with Some values -> List.map rational values | None -> raise (Bad "gamma is missing"));
  }

let rec read fields verdict =
  match input_line stdin with
  | exception End_of_file ->
      if fields <> [] then raise (Bad "the input ends before check");
      (match verdict with Some all_private -> all_private | None -> raise (Bad "there is nothing to check"))
  | line -> (
      match List.filter (( <> ) "") (String.split_on_char ' ' (String.trim line)) with
      | [] -> read fields verdict
      | [ "check" ] ->
          let is_private = check bits (input_of fields) in
          print_endline (if is_private then "private" else "not proved");
          read [] (Some (is_private && verdict <> Some false))
      | name :: values ->
          if not (List.mem name names) then raise (Bad ("unknown name: " ^ name));
          if List.mem_assoc name fields then raise (Bad ("given twice: " ^ name));
          read ((name, values) :: fields) verdict)

let () =
  match read [] None with
  | all_private -> exit (if all_private then 0 else 1)
  | exception Bad message ->
      prerr_endline ("darrm-formal: " ^ message);
      exit 2
