(** The checker: an executable [check], and the theorem that what it accepts is private.

    Input is rational: ε, Δ, m or the target ε, and δ as decimals or as the doubles that they are stored in, γ as the doubles that
    are stored. Everything that is not rational (e^ε, e^target) is bounded here. *)

From Coq Require Import Reals ZArith QArith Qreals List Lra Lia Arith Bool.
From Darrm Require Import Taylor Votes Corners Search Exponential.
Import ListNotations.

(** ** Input *)

(** Target ε of the release: itself, or the allowance m by which one voter's ε is multiplied. *)
Local Open Scope Q_scope.

Inductive goal := Target (epsilon : Q) | Allowance (m : Q).

Record input := {
  voters : nat;            (* K *)
  affected : nat;          (* r: voters that one record can influence *)
  voter_epsilon : option Q;  (* ε of a voter; None: the voters are not private *)
  voter_Delta : Q;         (* Δ of a voter *)
  aim : goal;              (* ε of the release *)
  release_delta : Q;       (* δ of the release *)
  gamma : list Q           (* γ(0), ..., γ(K) *)
}.

Definition target (i : input) : Q :=
  match aim i, voter_epsilon i with
  | Target t, _ => t
  | Allowance m, Some eps => m * eps
  | Allowance _, None => 0
  end.

(** ** The checker *)

Definition up (one : Z) (q : Q) : Z := (- ((- Qnum q * one) / QDen q))%Z.
Definition down (one : Z) (q : Q) : Z := (Qnum q * one / QDen q)%Z.

(** How often q is halved until it is below 1/2. *)
Definition halvings (q : Q) : nat := Z.to_nat (Z.log2 (Z.abs (Qnum q) / QDen q + 1) + 2).

(** At most e^q·2^bits. *)
Definition exp_of (bits : Z) (q : Q) : Z :=
  let one := Z.shiftl 1 bits in
  let h := halvings q in
  let z := (Qnum q * one / (QDen q * 2 ^ Z.of_nat h))%Z in
  if (z <? - one)%Z then 0%Z else exp_below bits z h.

Definition within (lo q hi : Q) : bool := Qle_bool lo q && Qle_bool q hi.

Definition is_noise_function (K : nat) (gamma : list Q) : bool :=
  (length gamma =? S K)%nat
  && all_upto (fun l => within 0 (nth l gamma 0) 1 && Qeq_bool (nth (K - l) gamma 0) (nth l gamma 0)) K.

(** g = sign(l − K/2)·γ(l), rounded up. *)
Definition signed_up (one : Z) (K : nat) (gamma : list Q) : list Z :=
  map (fun l => let q := nth l gamma 0 in
                if (K <? 2 * l)%nat then up one q else if (2 * l <? K)%nat then (- down one q)%Z else 0%Z) (seq 0 (S K)).

(** What the search needs, at 2^bits: Δ rounded up, e^(−ε) rounded down, the corner x rounded up, and e^target rounded down. *)
Definition corner_D (bits : Z) (i : input) : Z :=
  match voter_epsilon i with Some _ => up (Z.shiftl 1 bits) (voter_Delta i) | None => 0%Z end.
Definition shrinkage (bits : Z) (i : input) : Z := match voter_epsilon i with Some eps => exp_of bits (- eps) | None => 0%Z end.
Definition corner_x (bits : Z) (i : input) : Z :=
  let one := Z.shiftl 1 bits in
  let s := shrinkage bits i in
  (- (- (one * one + s * corner_D bits i) / (one + s)))%Z.
Definition factor (bits : Z) (i : input) : Z := exp_of bits (target i).

Definition check (bits : Z) (i : input) : bool :=
  let one := Z.shiftl 1 bits in
  let D := corner_D bits i in
  let s := shrinkage bits i in
  let x := corner_x bits i in
  let c := factor bits i in
  (0 <? bits)%Z
  && match aim i, voter_epsilon i with Allowance _, None => false | _, _ => true end
  && match voter_epsilon i with Some eps => Qle_bool 0 eps && within 0 (voter_Delta i) 1 | None => true end
  && within 0 (target i) 1000 && within 0 (release_delta i) 1
  && is_noise_function (voters i) (gamma i)
  && (D <=? one)%Z && (one <=? 2 * x)%Z && (x <=? one)%Z
  && ((one - x) * one <=? s * (x - D))%Z  (* x ≥ (e^ε + Δ)/(e^ε + 1) *)
  && search_within bits x D c ((c - one + 2 * down one (release_delta i)) * one)
       (Nat.min (affected i) (voters i)) (signed_up one (voters i) (gamma i)).

(** ** Soundness *)

Local Open Scope R_scope.

(** The claim, in the reals. *)
Definition noise (i : input) (l : nat) : R := Q2R (nth l (gamma i) 0%Q).

Definition claim (i : input) : Prop :=
  noise_function (voters i) (noise i) /\
  private_release (voters i) (affected i) (option_map Q2R (voter_epsilon i)) (Q2R (voter_Delta i)) (Q2R (target i)) (Q2R (release_delta i)) (noise i).

Lemma Q2R_num q : Q2R q * IZR (QDen q) = IZR (Qnum q).
Proof. unfold Q2R; field; apply not_0_IZR; discriminate. Qed.

Section Sound.

Variable bits : Z.
Hypothesis bits_range : (0 < bits)%Z.
Let one : Z := Z.shiftl 1 bits.

Let one_pos : 0 < IZR one.
Proof. apply one_positive; lia. Qed.

Lemma scaled z : value bits z * IZR one = IZR z.
Proof. unfold one; apply value_scaled; lia. Qed.

Lemma QDen_positive q : 0 < IZR (QDen q).
Proof. apply IZR_lt; reflexivity. Qed.

Lemma up_above q : Q2R q <= value bits (up one q).
Proof.
  pose proof (QDen_positive q) as den; pose proof (Q2R_num q) as num.
  apply Rmult_le_reg_r with (IZR one); [assumption|]; rewrite scaled.
  apply Rmult_le_reg_r with (IZR (QDen q)); [assumption|].
  replace (Q2R q * IZR one * IZR (QDen q)) with (Q2R q * IZR (QDen q) * IZR one) by ring; rewrite num.
  unfold up; rewrite <- !mult_IZR; apply IZR_le.
  pose proof (Z.mul_div_le (- Qnum q * one) (QDen q) ltac:(reflexivity)).
  set (w := (- Qnum q * one / QDen q)%Z) in *; clearbody w; nia.
Qed.

Lemma down_below q : value bits (down one q) <= Q2R q.
Proof.
  pose proof (QDen_positive q) as den; pose proof (Q2R_num q) as num.
  apply Rmult_le_reg_r with (IZR one); [assumption|]; rewrite scaled.
  apply Rmult_le_reg_r with (IZR (QDen q)); [assumption|].
  replace (Q2R q * IZR one * IZR (QDen q)) with (Q2R q * IZR (QDen q) * IZR one) by ring; rewrite num.
  unfold down; rewrite <- !mult_IZR; apply IZR_le.
  pose proof (Z.mul_div_le (Qnum q * one) (QDen q) ltac:(reflexivity)).
  set (w := (Qnum q * one / QDen q)%Z) in *; clearbody w; nia.
Qed.

Lemma value_opp z : value bits (- z) = - value bits z.
Proof. unfold value; rewrite opp_IZR; field; exact (Rgt_not_eq _ _ one_pos). Qed.

Lemma exp_of_sound q : 0 <= value bits (exp_of bits q) /\ value bits (exp_of bits q) <= exp (Q2R q).
Proof.
  unfold exp_of; cbv zeta; fold one; set (h := halvings q); set (z := (_ / _)%Z).
  destruct (Z.ltb_spec z (- one)).
  - replace (value bits 0) with 0 by (unfold value; field; exact (Rgt_not_eq _ _ one_pos)).
    split; [lra|left; apply exp_pos].
  - destruct (exp_below_sound bits ltac:(lia) z h) as [pos below]; [assumption|].
    split; [exact pos|]; apply Rle_trans with (1 := below), exp_monotone.
    pose proof (QDen_positive q) as den; pose proof (Q2R_num q) as num.
    apply Rmult_le_reg_r with (IZR one); [assumption|].
    replace (value bits z * 2 ^ h * IZR one) with (value bits z * IZR one * 2 ^ h) by ring.
    rewrite scaled.
    apply Rmult_le_reg_r with (IZR (QDen q)); [assumption|].
    replace (Q2R q * IZR one * IZR (QDen q)) with (Q2R q * IZR (QDen q) * IZR one) by ring; rewrite num.
    rewrite pow_IZR, <- !mult_IZR; apply IZR_le.
    assert (0 < 2 ^ Z.of_nat h)%Z by (apply Z.pow_pos_nonneg; lia).
    unfold z; pose proof (Z.mul_div_le (Qnum q * one) (QDen q * 2 ^ Z.of_nat h) ltac:(lia)); nia.
Qed.

Lemma value_between z : (0 <= z <= one)%Z -> 0 <= value bits z <= 1.
Proof.
  intros [lo hi]; apply IZR_le in lo, hi; pose proof (scaled z).
  split; apply Rmult_le_reg_r with (IZR one); try assumption; lra.
Qed.

Lemma Q2R_bool_le p q : Qle_bool p q = true -> Q2R p <= Q2R q.
Proof. intros le; apply Qle_Rle, Qle_bool_iff, le. Qed.

Lemma within_sound lo q hi : within lo q hi = true -> Q2R lo <= Q2R q <= Q2R hi.
Proof. intros w; apply andb_prop in w; destruct w; split; now apply Q2R_bool_le. Qed.

Lemma is_noise_function_sound K g :
  is_noise_function K g = true -> noise_function K (fun l => Q2R (nth l g 0%Q)).
Proof.
  intros test; apply andb_prop in test; destruct test as [_ all]; intros l le.
  pose proof (all_upto_true _ _ all l le) as here; cbv beta in here; apply andb_prop in here; destruct here as [range sym].
  apply within_sound in range; rewrite RMicromega.Q2R_0, RMicromega.Q2R_1 in range.
  split; [exact range|]; now apply Qeq_eqR, Qeq_bool_iff.
Qed.

Lemma signed_up_above K g : bounded bits K (signed_up one K g) (signed K (fun l => Q2R (nth l g 0%Q))).
Proof.
  split; [unfold signed_up; now rewrite map_length, seq_length|].
  intros l le; unfold signed_up; rewrite nth_map_seq by lia; cbv zeta; unfold signed, majority.
  destruct (K <? 2 * l)%nat; [|destruct (2 * l <? K)%nat].
  - pose proof (up_above (nth l g 0%Q)); lra.
  - rewrite value_opp; pose proof (down_below (nth l g 0%Q)); lra.
  - replace (value bits 0) with 0 by (unfold value; field; exact (Rgt_not_eq _ _ one_pos)); lra.
Qed.

End Sound.

Lemma corner_x_covers s E X D Delta :
  0 <= X <= 1 -> D <= 1 -> 0 < E -> 0 <= s <= / E -> Delta <= D -> 1 - X <= s * (X - D) -> E + Delta <= X * (E + 1).
Proof.
  intros X_range D_high E_pos s_range le covering.
  assert (D <= X) by (apply Rnot_lt_le; intros lt; nra).
  assert (1 - X <= / E * (X - Delta)) by nra.
  assert (E * (1 - X) <= X - Delta); [|lra].
  replace (X - Delta) with (E * (/ E * (X - Delta))) by (field; lra).
  apply Rmult_le_compat_l; lra.
Qed.

(** Main theorem: what the checker accepts is private. *)
Theorem check_sound bits i : check bits i = true -> claim i.
Proof.
  unfold check; cbv zeta; set (one := Z.shiftl 1 bits).
  set (D := corner_D bits i); set (s := shrinkage bits i); set (x := corner_x bits i); set (c := factor bits i); clearbody x.
  intros test; repeat (apply andb_prop in test; let t := fresh "t" in destruct test as [test t]).
  rename test into positive, t into searched, t0 into x_covers, t1 into x_high, t2 into x_low, t3 into D_high, t4 into is_noise,
    t5 into delta_range, t6 into target_range, t7 into voter_range, t8 into goal_ok.
  apply Z.ltb_lt in positive; apply Z.leb_le in x_covers, x_high, x_low, D_high.
  assert (one_pos : 0 < IZR one) by (apply one_positive; lia).
  assert (o : (0 < one)%Z) by now apply lt_IZR.
  pose proof (is_noise_function_sound _ _ is_noise) as noisy; split; [exact noisy|].
  destruct (exp_of_sound bits positive (target i)) as [c_pos c_below]; fold (factor bits i) in c_pos, c_below; fold c in c_pos, c_below.
  assert (c0 : (0 <= c)%Z).
  { apply le_IZR; rewrite <- (scaled bits positive c); apply Rmult_le_pos; [exact c_pos|fold one; lra]. }
  assert (D0 : (0 <= D)%Z).
  { unfold D, corner_D in *; destruct (voter_epsilon i); [|lia]; apply andb_prop in voter_range; destruct voter_range as [_ dr].
    apply within_sound in dr; rewrite RMicromega.Q2R_0 in dr.
    pose proof (up_above bits positive (voter_Delta i)) as above.
    apply le_IZR; rewrite <- (scaled bits positive (up _ _)); apply Rmult_le_pos; fold one in above |- *; lra. }
  pose proof (value_between bits positive D ltac:(fold one; lia)) as D_range.
  pose proof (value_between bits positive x ltac:(fold one; lia)) as x_range.
  pose proof (scaled bits positive x) as X; pose proof (scaled bits positive D) as DD; pose proof (scaled bits positive s) as S;
    fold one in X, DD, S.
  assert (half : 1 / 2 <= value bits x).
  { apply IZR_le in x_low; rewrite mult_IZR in x_low; apply Rmult_le_reg_r with (IZR one); lra. }
  assert (cov : covers (option_map Q2R (voter_epsilon i)) (Q2R (voter_Delta i)) (value bits x) (value bits D)).
  { apply IZR_le in x_covers; rewrite !mult_IZR, !minus_IZR, <- X, <- DD, <- S in x_covers.
    assert (covering : 1 - value bits x <= value bits s * (value bits x - value bits D)).
    { apply Rmult_le_reg_r with (IZR one * IZR one); nra. }
    repeat split; try lra.
    destruct (voter_epsilon i) as [eps|] eqn:voter; cbn [option_map].
    - apply andb_prop in voter_range; destruct voter_range as [_ dr]; apply within_sound in dr; rewrite RMicromega.Q2R_0 in dr.
      assert (above : Q2R (voter_Delta i) <= value bits D).
      { unfold D, corner_D; rewrite voter; apply up_above, positive. }
      assert (s_range : 0 <= value bits s <= / exp (Q2R eps)).
      { unfold s, shrinkage; rewrite voter, <- exp_Ropp, <- Q2R_opp; apply exp_of_sound, positive. }
      split; [|lra].
      apply (corner_x_covers (value bits s) _ _ (value bits D)); try lra; apply exp_pos.
    - assert (value bits s = 0); [|nra].
      unfold s, shrinkage; rewrite voter; unfold value; field; apply not_0_IZR; fold one; lia. }
  apply (private_by_corners _ _ _ _ _ _ _ (value bits x) (value bits D) (value bits c)); auto.
  intros ks len few.
  assert (few' : (moved_corners ks <= Nat.min (affected i) (voters i))%nat).
  { pose proof (counts_moved ks) as m; pose proof (counts_total ks) as n.
    apply Nat.min_glb; [exact few|]; rewrite <- len, <- m, <- n; clear; lia. }
  pose proof (search_sound bits x D c _ ltac:(lia) ltac:(fold one; lia) ltac:(fold one; lia) c0 (voters i) (Nat.min (affected i) (voters i)) _ _ ks
    (signed_up_above bits positive (voters i) (gamma i)) (Nat.le_min_r _ _) searched len few') as bound.
  fold one in bound; rewrite !mult_IZR, plus_IZR, minus_IZR, mult_IZR in bound.
  pose proof (down_below bits positive (release_delta i)) as low; fold one in low.
  rewrite <- !(scaled bits positive) with (z := c) in bound; rewrite <- !(scaled bits positive) with (z := down one (release_delta i)) in bound.
  fold one in bound; unfold noise.
  set (fk := _ + _) in *; clearbody fk.
  apply Rle_trans with (value bits c - 1 + 2 * value bits (down one (release_delta i))); [|lra].
  apply Rmult_le_reg_r with (IZR one * IZR one); [nra|]; lra.
Qed.

Check check_sound.
Print Assumptions check_sound.
