(** The two settings of the paper (MNIST and Fashion-MNIST teachers, m = 3), checked inside the proof assistant: no extraction, no
    compiler and no file is trusted for these. γ is what `darrm solve --K 11 --m 3 --epsilon ... --voter-delta 1e-4` answers, as the
    doubles that it is stored in. *)

From Coq Require Import Reals QArith Qreals ZArith List Lra.
From Darrm Require Import Votes Checker.
Import ListNotations.
Local Open Scope Q_scope.

(** γ(0), ..., γ(K) from γ(K), γ(K − 1), ..., for odd K. *)
Definition symmetric (half : list Q) : list Q := half ++ rev half.

Definition teachers (eps : Q) (g : list Q) : input :=
  {| voters := 11; affected := 11; voter_epsilon := Some eps; voter_Delta := 1 # 10000; aim := Allowance 3;
     release_delta := 299970001 # 1000000000000 (* 1 − (1 − Δ)³ *); gamma := g |}.

Definition mnist_gamma : list Q := symmetric
  [9007199254693335 # 9007199254740992; 4420043858384857 # 4503599627370496; 9007199254693335 # 9007199254740992;
   9007199254693335 # 9007199254740992; 4910622383194035 # 9007199254740992; 262761399143491 # 281474976710656].

Definition fashion_mnist_gamma : list Q := symmetric
  [1125899906836417 # 1125899906842624; 4421003896308901 # 4503599627370496; 1125899906836417 # 1125899906842624;
   1125899906836417 # 1125899906842624; 1228204231216135 # 2251799813685248; 8402922245417765 # 9007199254740992].

Theorem mnist_private : claim (teachers (892 # 10000) mnist_gamma).
Proof. apply (check_sound 64); vm_compute; reflexivity. Qed.

Theorem fashion_mnist_private : claim (teachers (852 # 10000) fashion_mnist_gamma).
Proof. apply (check_sound 64); vm_compute; reflexivity. Qed.

Local Open Scope R_scope.

(** The same in full: eleven independent teachers, each (0.0892, 0.0001)-DP, all of whom a record may reach. *)
Corollary mnist_in_full : let g := fun l => Q2R (nth l mnist_gamma 0%Q) in
  forall (pairs : list (R * R)) (bit : bool),
    length pairs = 11%nat -> Forall (admissible (Some (892 / 10000)) (1 / 10000)) pairs ->
    Pr g bit (map fst pairs) <= exp (2676 / 10000) * Pr g bit (map snd pairs) + 299970001 / 1000000000000.
Proof.
  intros g pairs bit len adm; destruct mnist_private as [_ private].
  cbn [teachers voters affected voter_epsilon voter_Delta release_delta gamma option_map] in private.
  replace (Q2R (892 # 10000)) with (892 / 10000) in private by (unfold Q2R; simpl; lra).
  replace (Q2R (1 # 10000)) with (1 / 10000) in private by (unfold Q2R; simpl; lra).
  replace (Q2R (target _)) with (2676 / 10000) in private by (unfold Q2R; simpl; lra).
  replace (Q2R (299970001 # 1000000000000)) with (299970001 / 1000000000000) in private by (unfold Q2R; simpl; lra).
  apply (private pairs bit len adm); rewrite <- len; apply moved_at_most.
Qed.

(** What is too large is refused: a constraint binds. *)
Example mnist_scaled_up :
  check 64 (teachers (892 # 10000)%Q (map (fun q => q * (1000000001 # 1000000000))%Q mnist_gamma)) = false.
Proof. vm_compute; reflexivity. Qed.

Print Assumptions mnist_in_full.
