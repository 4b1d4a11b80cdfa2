(** The sampler: comparing uniform words with the digits of γ(l) accepts with probability γ(l), exactly.

    A double in [0, 1] is Σ h_i·B^(−i) with whole digits h_i, B = 2^w for words of w bits: 63 in the product, 1 for single bits.
    Words are compared with digits in dictionary order, and none is read after the first that differs. *)

From Coq Require Import Reals ZArith List Lra Lia Arith.
From Darrm Require Import Votes.
Import ListNotations.
Local Open Scope R_scope.

(** ** Definitions *)

(** f 0 + ... + f (n − 1). *)
Fixpoint total (f : nat -> R) (n : nat) : R := match n with O => 0 | S m => total f m + f m end.

(** Expected value of [f] over [n] independent words, each uniform in 0..B − 1. *)
Fixpoint over_words (B n : nat) (f : list nat -> R) : R :=
  match n with
  | O => f []
  | S m => total (fun u => over_words B m (fun words => f (u :: words))) B / INR B
  end.

(** Whether the words are below the digits; once a word differs the others are not looked at, nor after the last digit. *)
Fixpoint below (words digits : list nat) : bool :=
  match words, digits with
  | u :: words, h :: digits => if (u <? h)%nat then true else if (u =? h)%nat then below words digits else false
  | _, _ => false
  end.

(** Σ h_i·B^(−i). *)
Fixpoint fraction (B : nat) (digits : list nat) : R :=
  match digits with
  | [] => 0
  | h :: rest => (INR h + fraction B rest) / INR B
  end.

(** Digits are below B, or the number is 1: the digit B, and zeros after it. *)
Fixpoint well_formed (B : nat) (digits : list nat) : Prop :=
  match digits with
  | [] => True
  | h :: rest => ((h < B)%nat \/ h = B /\ Forall (fun d => d = 0%nat) rest) /\ well_formed B rest
  end.

(** What is released, from the words and one fair coin. *)
Definition released (K l : nat) (digits words : list nat) (coin : bool) : bool :=
  if below words digits then if (K <? 2 * l)%nat then true else if (2 * l <? K)%nat then false else coin else coin.

(** Probability that it is [bit]. *)
Definition Pr_released (B K l : nat) (digits : list nat) (bit : bool) : R :=
  let is coin := over_words B (length digits) (fun words => if Bool.eqb (released K l digits words coin) bit then 1 else 0) in
  (is true + is false) / 2.

(** ** Exactness *)

Lemma total_ext f g n : (forall u, (u < n)%nat -> f u = g u) -> total f n = total g n.
Proof. induction n as [|n IH]; simpl; intros same; [reflexivity|]; rewrite IH, same; auto; intros; apply same; lia. Qed.

Lemma total_below h rest n :
  total (fun u => if (u <? h)%nat then 1 else if (u =? h)%nat then rest else 0) n
  = INR (Nat.min h n) + (if (h <? n)%nat then rest else 0).
Proof.
  induction n as [|n IH]; [rewrite Nat.min_0_r; simpl; lra|].
  cbn [total]; rewrite IH.
  destruct (Nat.ltb_spec h n), (Nat.ltb_spec h (S n)), (Nat.ltb_spec n h), (Nat.eqb_spec n h); try lia.
  - rewrite !Nat.min_l by lia; lra.
  - subst; rewrite !Nat.min_l by lia; lra.
  - rewrite !Nat.min_r by lia; rewrite S_INR; lra.
Qed.

Lemma over_words_linear B u v (f g : list nat -> R) : forall n, (0 < B)%nat ->
  over_words B n (fun words => u * f words + v * g words) = u * over_words B n f + v * over_words B n g.
Proof.
  intros n pos; revert f g; induction n as [|n IH]; intros f g; [reflexivity|].
  cbn [over_words].
  assert (E : forall m, total (fun w => over_words B n (fun words => u * f (w :: words) + v * g (w :: words))) m
    = u * total (fun w => over_words B n (fun words => f (w :: words))) m
      + v * total (fun w => over_words B n (fun words => g (w :: words))) m).
  { induction m as [|m IHm]; simpl; [ring|].
    rewrite IHm, (IH (fun words => f (m :: words)) (fun words => g (m :: words))); ring. }
  rewrite E; field; apply not_0_INR; lia.
Qed.

Lemma over_words_const B n c : (0 < B)%nat -> over_words B n (fun _ => c) = c.
Proof.
  intros pos; induction n as [|n IH]; [reflexivity|]; cbn [over_words].
  rewrite (total_ext _ (fun _ => c)) by (intros; exact IH).
  assert (E : forall m, total (fun _ => c) m = INR m * c).
  { induction m as [|m IHm]; [simpl; ring|]; cbn [total]; rewrite IHm, S_INR; ring. }
  rewrite E; field; apply not_0_INR; lia.
Qed.

Lemma fraction_zeros B digits : Forall (fun d => d = 0%nat) digits -> fraction B digits = 0.
Proof. induction 1 as [|d digits zero _ IH]; simpl; [reflexivity|]; rewrite zero, IH; simpl; unfold Rdiv; ring. Qed.

(** Theorem (e): the words are below the digits with probability Σ h_i·B^(−i). *)
Theorem accepted_exactly B digits : (0 < B)%nat -> well_formed B digits ->
  over_words B (length digits) (fun words => if below words digits then 1 else 0) = fraction B digits.
Proof.
  intros pos; induction digits as [|h digits IH]; [reflexivity|]; intros [range form].
  cbn [length over_words fraction]; f_equal.
  rewrite (total_ext _ (fun u => if (u <? h)%nat then 1 else if (u =? h)%nat then fraction B digits else 0)).
  - rewrite total_below; destruct range as [lt|[-> zeros]].
    + rewrite Nat.min_l by lia; destruct (Nat.ltb_spec h B); [reflexivity|lia].
    + rewrite Nat.min_id, Nat.ltb_irrefl, (fraction_zeros _ _ zeros); reflexivity.
  - intros u _; cbn [below]; destruct (u <? h)%nat; [now apply over_words_const|].
    destruct (u =? h)%nat; [now apply IH|now apply over_words_const].
Qed.

Lemma over_words_ext B n : forall f g : list nat -> R, (forall words, f words = g words) -> over_words B n f = over_words B n g.
Proof. induction n as [|n IH]; simpl; intros f g same; [apply same|]; f_equal; apply total_ext; intros; apply IH; auto. Qed.

(** So the mechanism draws from the law that the certificate is about. *)
Theorem released_exactly B gamma digits bit votes :
  (0 < B)%nat -> well_formed B (digits (ones votes)) -> gamma (ones votes) = fraction B (digits (ones votes)) ->
  Pr_released B (length votes) (ones votes) (digits (ones votes)) bit = release gamma bit votes.
Proof.
  intros pos form exact; unfold Pr_released, release; cbv zeta.
  set (K := length votes); set (l := ones votes) in *; set (h := digits l) in *.
  assert (E : forall coin, over_words B (length h) (fun words => if Bool.eqb (released K l h words coin) bit then 1 else 0)
    = fraction B h * (if Bool.eqb (if (K <? 2 * l)%nat then true else if (2 * l <? K)%nat then false else coin) bit then 1 else 0)
      + (1 - fraction B h) * (if Bool.eqb coin bit then 1 else 0)).
  { intros coin.
    set (yes := if Bool.eqb (if (K <? 2 * l)%nat then _ else _) bit then 1 else 0); set (no := if Bool.eqb coin bit then 1 else 0).
    rewrite (over_words_ext _ _ _ (fun words => (yes - no) * (if below words h then 1 else 0) + no * 1)).
    - rewrite (over_words_linear B (yes - no) no (fun words => if below words h then 1 else 0) (fun _ => 1)) by assumption.
      rewrite accepted_exactly, over_words_const by assumption; ring.
    - intros words; unfold released, yes, no; destruct (below words h); ring. }
  rewrite !E, exact; unfold majority.
  destruct bit, (K <? 2 * l)%nat, (2 * l <? K)%nat; simpl; field.
Qed.

(** Every dyadic number of [0, 1] has such digits: n digits in base B = 2^w of z / B^n, from the first on. *)
Fixpoint digits_of (B n z : nat) : list nat :=
  match n with O => [] | S m => (z / B ^ m)%nat :: digits_of B m (z mod B ^ m) end.

Lemma digits_of_zero B n : (0 < B)%nat -> Forall (fun d => d = 0%nat) (digits_of B n 0).
Proof.
  intros pos; induction n as [|n IH]; simpl; constructor.
  - apply Nat.div_0_l, Nat.pow_nonzero; lia.
  - now rewrite Nat.mod_0_l by (apply Nat.pow_nonzero; lia).
Qed.

Theorem digits_exist B n : (0 < B)%nat -> forall z, (z <= B ^ n)%nat -> (0 < n)%nat ->
  length (digits_of B n z) = n /\ well_formed B (digits_of B n z) /\ fraction B (digits_of B n z) = INR z / INR (B ^ n).
Proof.
  intros pos z le some.
  assert (all : forall n z, (z < B ^ n \/ z = B ^ n /\ 0 < n)%nat ->
    length (digits_of B n z) = n /\ well_formed B (digits_of B n z) /\ fraction B (digits_of B n z) = INR z / INR (B ^ n)).
  { clear n z le some; induction n as [|n IH]; intros z range.
    - simpl in range; assert (z = 0%nat) as -> by lia; simpl; repeat split; lra.
    - assert (nonzero : (B ^ n <> 0)%nat) by (apply Nat.pow_nonzero; lia).
      destruct (IH (z mod B ^ n)%nat) as (len & form & frac); [left; now apply Nat.mod_upper_bound|].
      cbn [digits_of length well_formed fraction]; rewrite len, frac; repeat split; [|exact form|].
      + destruct range as [lt|[-> _]].
        * left; apply Nat.div_lt_upper_bound; [assumption|]; rewrite Nat.mul_comm; exact lt.
        * right; simpl; rewrite Nat.div_mul, Nat.mod_mul by assumption; split; [reflexivity|now apply digits_of_zero].
      + pose proof (Nat.div_mod z (B ^ n) nonzero) as E; apply (f_equal INR) in E; rewrite plus_INR, mult_INR in E.
        cbn [Nat.pow]; rewrite mult_INR, E; field; split; apply not_0_INR; lia. }
  apply all; destruct (Nat.eq_dec z (B ^ n)); [right; auto|left; lia].
Qed.

Check released_exactly.
Print Assumptions released_exactly.
