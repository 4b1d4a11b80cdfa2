(** Lower bounds of e^z in whole numbers: a Taylor sum, added up exactly, and repeated squaring. *)

From Coq Require Import Reals ZArith List Lra Lia Arith.
From Darrm Require Import Taylor Search.
Local Open Scope R_scope.

Section Exponential.

Variable bits : Z.
Let one : Z := Z.shiftl 1 bits.  (* 2^bits *)

(** Numerator, power and denominator of the Taylor sum of n + 1 terms at z / 2^bits. *)
Fixpoint taylor (z : Z) (n : nat) : Z * Z * Z :=
  match n with
  | O => (1, 1, 1)%Z
  | S m =>
      let '(sum, power, scale) := taylor z m in
      let factor := (Z.of_nat n * one)%Z in
      (sum * factor + power * z, power * z, scale * factor)%Z
  end.

Definition terms : nat := S (2 * Z.to_nat (bits / 8)).

(** At most e^(z·2^halvings / 2^bits)·2^bits, for z in -2^bits.. *)
Definition exp_below (z : Z) (halvings : nat) : Z :=
  let '(sum, _, scale) := taylor z terms in
  times halvings (fun l => Z.shiftr (l * l) bits) (Z.max 0 (sum * one / scale)).

Hypothesis bits_range : (0 <= bits)%Z.

Let one_positive : 0 < IZR one := one_positive bits bits_range.

Lemma taylor_exact z n : let '(sum, power, scale) := taylor z n in
  0 < IZR scale /\ IZR scale = INR (fact n) * IZR one ^ n /\ IZR power = IZR z ^ n
  /\ IZR sum = IZR scale * sum_f_R0 (term (value bits z)) n.
Proof.
  induction n as [|n IH].
  - simpl; unfold term; simpl; repeat split; try lra; field.
  - cbn [taylor]; destruct (taylor z n) as [[sum power] scale], IH as (pos & E & P & total).
    assert (N : 0 < INR (S n)) by (apply lt_0_INR; lia).
    rewrite !plus_IZR, !mult_IZR, <- INR_IZR_INZ.
    repeat split.
    + apply Rmult_lt_0_compat; [|apply Rmult_lt_0_compat]; assumption.
    + rewrite E, fact_simpl, mult_INR; simpl pow; ring.
    + rewrite P; simpl pow; ring.
    + cbn [sum_f_R0]; rewrite Rmult_plus_distr_l, total; f_equal; [ring|].
      unfold term; rewrite P, E, fact_simpl, mult_INR; unfold value; fold one.
      pose proof (INR_fact_positive n).
      unfold Rdiv; rewrite Rpow_mult_distr, pow_inv; simpl pow.
      field; repeat split; try lra; apply pow_nonzero; lra.
Qed.

Lemma squarings_below halvings : forall l z, 0 <= value bits l -> value bits l <= exp z ->
  value bits (times halvings (fun l => Z.shiftr (l * l) bits) l) <= exp (z * 2 ^ halvings).
Proof.
  induction halvings as [|h IH]; intros l z pos le; simpl times.
  - now rewrite Rmult_1_r.
  - replace (z * 2 ^ S h) with ((z + z) * 2 ^ h) by (simpl; ring).
    pose proof (value_scaled bits bits_range l) as L; fold one in L.
    assert (l0 : (0 <= l)%Z) by (apply le_IZR; rewrite <- L; nra).
    assert (below : IZR (Z.shiftr (l * l) bits) * IZR one <= IZR l * IZR l).
    { rewrite <- !mult_IZR; apply IZR_le; rewrite Z.shiftr_div_pow2, <- Z.shiftl_1_l by assumption; fold one.
      rewrite Z.mul_comm; apply Z.mul_div_le, lt_IZR; exact one_positive. }
    apply IH; clear IH.
    + unfold value; fold one; apply Rmult_le_pos; [|left; now apply Rinv_0_lt_compat].
      apply IZR_le, Z.shiftr_nonneg; nia.
    + apply Rle_trans with (value bits l * value bits l).
      * apply Rmult_le_reg_r with (IZR one * IZR one); [nra|].
        replace (value bits l * value bits l * (IZR one * IZR one)) with ((value bits l * IZR one) * (value bits l * IZR one)) by ring.
        rewrite L.
        replace (value bits (Z.shiftr (l * l) bits) * (IZR one * IZR one))
          with (value bits (Z.shiftr (l * l) bits) * IZR one * IZR one) by ring.
        unfold one; rewrite value_scaled by assumption; exact below.
      * rewrite exp_plus; apply Rmult_le_compat; assumption.
Qed.

Theorem exp_below_sound z halvings : (- one <= z)%Z ->
  0 <= value bits (exp_below z halvings) /\ value bits (exp_below z halvings) <= exp (value bits z * 2 ^ halvings).
Proof.
  intros range; unfold exp_below; pose proof (taylor_exact z terms) as T.
  destruct (taylor z terms) as [[sum power] scale], T as (pos & _ & _ & total).
  set (start := Z.max 0 (sum * one / scale)).
  assert (s0 : 0 <= value bits start).
  { unfold value; fold one; apply Rmult_le_pos; [apply IZR_le; lia|left; now apply Rinv_0_lt_compat]. }
  split.
  - clearbody start; clear total; revert start s0; induction halvings as [|h IH]; intros start s0; [exact s0|].
    apply IH; unfold value; fold one; apply Rmult_le_pos; [|left; now apply Rinv_0_lt_compat].
    apply IZR_le, Z.shiftr_nonneg; nia.
  - apply squarings_below; [exact s0|].
    apply Rmult_le_reg_r with (IZR one); [assumption|]; unfold one; rewrite value_scaled by assumption; fold one.
    unfold start; destruct (Z.max_spec 0 (sum * one / scale)) as [[_ ->]|[_ ->]].
    + assert (sp : (0 < scale)%Z) by now apply lt_IZR.
      pose proof (Z.mul_div_le (sum * one) scale sp) as le; apply IZR_le in le; rewrite !mult_IZR, total in le.
      apply Rmult_le_reg_l with (IZR scale); [assumption|]; apply Rle_trans with (1 := le).
      rewrite Rmult_assoc; apply Rmult_le_compat_l; [lra|]; apply Rmult_le_compat_r; [lra|].
      pose proof (value_scaled bits bits_range z) as V; fold one in V.
      destruct (Z.le_gt_cases 0 z) as [nonneg|neg].
      * apply taylor_below_positive; unfold value; fold one.
        apply Rmult_le_pos; [now apply IZR_le|left; now apply Rinv_0_lt_compat].
      * apply taylor_below_negative.
        assert (IZR z < 0) by now apply IZR_lt.
        apply IZR_le in range; rewrite opp_IZR in range.
        split; apply Rmult_le_reg_r with (IZR one); try assumption; rewrite V; lra.
    + pose proof (exp_pos (value bits z)); nra.
Qed.

End Exponential.
