(** The vote, its release, and what privacy of the release means.

    [Pr gamma bit ps] is the probability that DaRRM with noise function [gamma] releases [bit] when voter i answers 1 with
    probability p_i, independently of the others. [private_release] is the claim that a certificate makes. Everything
    else in this development serves to prove it; to know what is proved, read the definitions on this page. *)

From Coq Require Import Reals List Lra Lia Arith Permutation.
From Darrm Require Import Taylor.
Import ListNotations.
Local Open Scope R_scope.

(** ** Definitions *)

(** Expected value of [f] over the votes of independent voters. *)
Fixpoint expectation (ps : list R) (f : list bool -> R) : R :=
  match ps with
  | [] => f []
  | p :: rest =>
      (1 - p) * expectation rest (fun votes => f (false :: votes)) + p * expectation rest (fun votes => f (true :: votes))
  end.

(** Number of ones among the votes. *)
Fixpoint ones (votes : list bool) : nat :=
  match votes with
  | [] => 0
  | true :: rest => S (ones rest)
  | false :: rest => ones rest
  end.

(** Probability that the majority is 1 when l of K voters say 1: a tie is a fair coin. *)
Definition majority (K l : nat) : R :=
  if (K <? 2 * l)%nat then 1 else if (2 * l <? K)%nat then 0 else 1 / 2.

(** Probability that the mechanism releases [bit], given the votes: with probability γ(l) the majority, else a fair coin. *)
Definition release (gamma : nat -> R) (bit : bool) (votes : list bool) : R :=
  let K := length votes in
  let l := ones votes in
  gamma l * (if bit then majority K l else 1 - majority K l) + (1 - gamma l) * (1 / 2).

(** Probability that the mechanism releases [bit], given each voter's probability of a 1. *)
Definition Pr (gamma : nat -> R) (bit : bool) (ps : list R) : R := expectation ps (release gamma bit).

(** One voter answers 1 with probability [fst v] on the dataset and [snd v] on its neighbour. (ε, Δ)-DP of the voter is four
    inequalities, two for each answer. [None]: the voter is not private, nothing is known but that these are probabilities. *)
Definition admissible (epsilon : option R) (Delta : R) (v : R * R) : Prop :=
  let (p, p') := v in
  0 <= p <= 1 /\ 0 <= p' <= 1 /\
  match epsilon with
  | None => True
  | Some eps =>
      p <= exp eps * p' + Delta /\ p' <= exp eps * p + Delta /\
      1 - p <= exp eps * (1 - p') + Delta /\ 1 - p' <= exp eps * (1 - p) + Delta
  end.

(** Number of voters whose answer a record can influence: those whose probabilities differ. *)
Definition moves (v : R * R) : bool := if Req_EM_T (fst v) (snd v) then false else true.
Definition moved (voters : list (R * R)) : nat := length (filter moves voters).

Lemma moved_at_most voters : (moved voters <= length voters)%nat.
Proof. unfold moved; induction voters as [|v voters IH]; simpl; [auto|]; destruct (moves v); simpl; lia. Qed.

(** The claim of a certificate: for any K independent admissible voters of which the record moves at most r, releasing one bit
    is (target, δ)-DP, whichever bit it is. Neighbouring datasets may be exchanged: so may [fst] and [snd]. *)
Definition private_release (K r : nat) (epsilon : option R) (Delta target delta : R) (gamma : nat -> R) : Prop :=
  forall (voters : list (R * R)) (bit : bool),
    length voters = K -> Forall (admissible epsilon Delta) voters -> (moved voters <= r)%nat ->
    Pr gamma bit (map fst voters) <= exp target * Pr gamma bit (map snd voters) + delta.

(** γ as the certificate wants it: probabilities, symmetric. *)
Definition noise_function (K : nat) (gamma : nat -> R) : Prop :=
  forall l, (l <= K)%nat -> 0 <= gamma l <= 1 /\ gamma (K - l)%nat = gamma l.

(** ** The blossom: expectations of functions of the count *)

(** One de Casteljau step: condition on one voter. *)
Definition step (t : R) (a : nat -> R) (l : nat) : R := (1 - t) * a l + t * a (S l).

(** Fix one voter after the other. *)
Fixpoint blossom (ps : list R) (a : nat -> R) : R :=
  match ps with
  | [] => a 0%nat
  | p :: rest => blossom rest (step p a)
  end.

Lemma expectation_ext ps : forall f f' : list bool -> R,
  (forall votes, length votes = length ps -> f votes = f' votes) -> expectation ps f = expectation ps f'.
Proof.
  induction ps as [|p ps IH]; simpl; intros f f' same; [now apply same|].
  rewrite (IH (fun votes => f (false :: votes)) (fun votes => f' (false :: votes)));
    [rewrite (IH (fun votes => f (true :: votes)) (fun votes => f' (true :: votes))); auto|];
    intros; apply same; simpl; congruence.
Qed.

Lemma blossom_ext ps : forall a b : nat -> R,
  (forall l, (l <= length ps)%nat -> a l = b l) -> blossom ps a = blossom ps b.
Proof.
  induction ps as [|p ps IH]; simpl; intros a b same; [now apply same|].
  apply IH; intros; unfold step; rewrite !same by lia; reflexivity.
Qed.

Lemma blossom_linear ps : forall u v (a b : nat -> R),
  blossom ps (fun l => u * a l + v * b l) = u * blossom ps a + v * blossom ps b.
Proof.
  induction ps as [|p ps IH]; simpl; intros; [reflexivity|].
  rewrite <- IH; apply blossom_ext; intros; unfold step; ring.
Qed.

Lemma blossom_const ps c : blossom ps (fun _ => c) = c.
Proof.
  induction ps as [|p ps IH]; simpl; [reflexivity|].
  transitivity (blossom ps (fun _ => c)); [apply blossom_ext; intros; unfold step; ring | exact IH].
Qed.

Lemma blossom_cons p ps a : blossom (p :: ps) a = (1 - p) * blossom ps a + p * blossom ps (fun l => a (S l)).
Proof. simpl; apply (blossom_linear ps (1 - p) p a (fun l => a (S l))). Qed.

(** Theorem (b): the de Casteljau recurrence computes the expectation of any function of the number of ones. *)
Theorem de_casteljau ps : forall a : nat -> R, expectation ps (fun votes => a (ones votes)) = blossom ps a.
Proof.
  induction ps as [|p ps IH]; intros a; [reflexivity|].
  rewrite blossom_cons; cbn [expectation].
  rewrite <- (IH a), <- (IH (fun l => a (S l))); reflexivity.
Qed.

(** Steps commute, so the order of the voters does not matter. *)
Lemma blossom_permutation ps qs : Permutation ps qs -> forall a, blossom ps a = blossom qs a.
Proof.
  induction 1; simpl; intros; auto.
  - apply blossom_ext; intros; unfold step; ring.
  - now rewrite IHPermutation1.
Qed.

(** ** g = sign(l − K/2)·γ(l), and H = E g(L) *)

Definition signed (K : nat) (gamma : nat -> R) (l : nat) : R := gamma l * (2 * majority K l - 1).

Lemma Pr_blossom gamma bit ps :
  Pr gamma bit ps = (1 + (if bit then 1 else -1) * blossom ps (signed (length ps) gamma)) / 2.
Proof.
  unfold Pr.
  rewrite (expectation_ext ps _
    (fun votes => (fun l => (1 / 2) * 1 + ((if bit then 1 else -1) / 2) * signed (length ps) gamma l) (ones votes))).
  - rewrite (de_casteljau ps (fun l => (1 / 2) * 1 + ((if bit then 1 else -1) / 2) * signed (length ps) gamma l)).
    rewrite (blossom_linear ps (1 / 2) _ (fun _ => 1)), blossom_const; field.
  - intros votes len; unfold release, signed; rewrite len; destruct bit; field.
Qed.

(** Counting zeros instead of ones. *)
Lemma blossom_reflect ps : forall a, blossom (map (fun p => 1 - p) ps) a = blossom ps (fun l => a (length ps - l)%nat).
Proof.
  induction ps as [|p ps IH]; intros a; [reflexivity|].
  cbn [map]; rewrite !blossom_cons, !IH.
  assert (E : blossom ps (fun l => a (length (p :: ps) - l)%nat) = blossom ps (fun l => a (S (length ps - l)))).
  { apply blossom_ext; intros l ?; f_equal; simpl length; lia. }
  assert (F : blossom ps (fun l => a (length (p :: ps) - S l)%nat) = blossom ps (fun l => a (length ps - l)%nat)).
  { apply blossom_ext; intros l ?; f_equal. }
  rewrite E, F; ring.
Qed.

Lemma signed_antisymmetric K gamma l : noise_function K gamma -> (l <= K)%nat -> signed K gamma (K - l) = - signed K gamma l.
Proof.
  intros noise le; destruct (noise l le) as [_ sym]; unfold signed; rewrite sym; unfold majority.
  repeat match goal with |- context [(?a <? ?b)%nat] => destruct (Nat.ltb_spec a b) end; try lia; try field.
Qed.

Lemma H_reflect gamma ps : noise_function (length ps) gamma ->
  blossom (map (fun p => 1 - p) ps) (signed (length ps) gamma) = - blossom ps (signed (length ps) gamma).
Proof.
  intros noise; rewrite blossom_reflect.
  rewrite (blossom_ext ps _ (fun l => -1 * signed (length ps) gamma l + 0 * 0)).
  - rewrite (blossom_linear ps (-1) 0 _ (fun _ => 0)); ring.
  - intros; rewrite signed_antisymmetric by assumption; ring.
Qed.

(** f(p, p′) = H(p) + c·H(1 − p′), by which privacy is decided. *)
Definition f (K : nat) (gamma : nat -> R) (c : R) (voters : list (R * R)) : R :=
  blossom (map fst voters) (signed K gamma) + c * blossom (map (fun v => 1 - snd v) voters) (signed K gamma).

Lemma f_decides K gamma c delta voters :
  noise_function K gamma -> length voters = K ->
  f K gamma c voters <= c - 1 + 2 * delta ->
  Pr gamma true (map fst voters) <= c * Pr gamma true (map snd voters) + delta.
Proof.
  intros noise len; unfold f; subst K.
  assert (E : map (fun v : R * R => 1 - snd v) voters = map (fun p => 1 - p) (map snd voters)) by now rewrite map_map.
  rewrite E; rewrite <- (map_length snd) in noise |- *; rewrite H_reflect by assumption.
  rewrite !Pr_blossom, !map_length; lra.
Qed.

(** The other answer: exchange zeros and ones of every voter. *)
Definition mirrored (v : R * R) : R * R := (1 - fst v, 1 - snd v).

Lemma mirrored_admissible epsilon Delta v : admissible epsilon Delta v -> admissible epsilon Delta (mirrored v).
Proof.
  destruct v as [p p'], epsilon; unfold admissible, mirrored; simpl; [|intuition lra].
  replace (1 - (1 - p)) with p by ring; replace (1 - (1 - p')) with p' by ring; intuition lra.
Qed.

Lemma mirrored_moved voters : moved (map mirrored voters) = moved voters.
Proof.
  unfold moved; induction voters as [|v voters IH]; simpl; [reflexivity|].
  replace (moves (mirrored v)) with (moves v); [destruct (moves v); simpl; now rewrite IH|].
  unfold moves, mirrored; simpl; do 2 destruct Req_EM_T; auto; lra.
Qed.

Lemma Pr_mirrored gamma ps : noise_function (length ps) gamma ->
  Pr gamma true (map (fun p => 1 - p) ps) = Pr gamma false ps.
Proof. intros; rewrite !Pr_blossom, map_length, H_reflect by assumption; field. Qed.

(** ** Probabilities *)

Lemma blossom_between ps lo hi : Forall (fun p => 0 <= p <= 1) ps ->
  forall a : nat -> R, (forall l, (l <= length ps)%nat -> lo <= a l <= hi) -> lo <= blossom ps a <= hi.
Proof.
  induction 1 as [|p ps range _ IH]; simpl; intros a between; [now apply between|].
  apply IH; intros l le; unfold step.
  pose proof (between l ltac:(lia)); pose proof (between (S l) ltac:(lia)); nra.
Qed.

Lemma majority_cases K l : majority K l = 1 \/ majority K l = 0 \/ majority K l = 1 / 2.
Proof. unfold majority; repeat destruct (_ <? _)%nat; auto. Qed.

Lemma Pr_nonnegative gamma bit ps : noise_function (length ps) gamma -> Forall (fun p => 0 <= p <= 1) ps -> 0 <= Pr gamma bit ps.
Proof.
  intros noise range; rewrite Pr_blossom.
  assert (-1 <= blossom ps (signed (length ps) gamma) <= 1); [|destruct bit; lra].
  apply blossom_between; auto; intros l le; unfold signed.
  destruct (noise l le) as [? _], (majority_cases (length ps) l) as [->|[->| ->]]; lra.
Qed.

(** If f is within its limit at all admissible voters, the release is private: for c = e^target, and for any smaller c as well, since
    what holds with a smaller factor holds with a larger one. *)
Theorem private_by_f K r epsilon Delta target delta gamma c :
  noise_function K gamma -> c <= exp target ->
  (forall voters, length voters = K -> Forall (admissible epsilon Delta) voters -> (moved voters <= r)%nat ->
     f K gamma c voters <= c - 1 + 2 * delta) ->
  private_release K r epsilon Delta target delta gamma.
Proof.
  intros noise le bound voters bit len adm few.
  assert (stronger : Pr gamma bit (map fst voters) <= c * Pr gamma bit (map snd voters) + delta).
  { destruct bit; [apply (f_decides K); auto|].
    rewrite <- !Pr_mirrored by now rewrite map_length, len.
    assert (len' : length (map mirrored voters) = K) by now rewrite map_length.
    replace (map (fun p => 1 - p) (map fst voters)) with (map fst (map mirrored voters)) by now rewrite !map_map.
    replace (map (fun p => 1 - p) (map snd voters)) with (map snd (map mirrored voters)) by now rewrite !map_map.
    apply (f_decides K); auto.
    apply bound; auto; [|now rewrite mirrored_moved].
    rewrite Forall_map; revert adm; apply Forall_impl, mirrored_admissible. }
  assert (0 <= Pr gamma bit (map snd voters)); [|nra].
  apply Pr_nonnegative; [now rewrite map_length, len|].
  rewrite Forall_map; revert adm; apply Forall_impl; intros [p p']; unfold admissible; simpl; tauto.
Qed.

(** ** Scaling *)

(** Theorem (d): scaling γ by s in [0, 1] keeps privacy, because γ = 0 is private and both sides are affine in γ. *)
Theorem scaling K r epsilon Delta target delta gamma s :
  0 <= s <= 1 -> 0 <= target -> 0 <= delta ->
  private_release K r epsilon Delta target delta gamma ->
  private_release K r epsilon Delta target delta (fun l => s * gamma l).
Proof.
  intros range t d priv voters bit len adm few; specialize (priv voters bit len adm few).
  assert (E : forall ps, Pr (fun l => s * gamma l) bit ps = s * Pr gamma bit ps + (1 - s) * (1 / 2)).
  { intros ps; rewrite !Pr_blossom.
    rewrite (blossom_ext ps _ (fun l => s * signed (length ps) gamma l + 0 * 0)) by (intros; unfold signed; ring).
    rewrite (blossom_linear ps s 0 _ (fun _ => 0)); field. }
  rewrite !E; assert (1 <= exp target) by (now apply exp_at_least_one).
  nra.
Qed.
