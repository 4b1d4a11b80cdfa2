(** The checker as an OCaml program. Whole numbers become Zarith's; K and r stay as they are defined, in unary. *)

From Coq Require Import ZArith Extraction ExtrOcamlBasic ExtrOcamlZBigInt.
From Darrm Require Import Checker.

Extraction Language OCaml.
Extraction "darrm_checker.ml" check.
